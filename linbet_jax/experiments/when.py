"""When robust policies pay: OFUL beside them over tail index, skew, horizon, size, gap and instances that separate.

A cell is one policy on one world. It plays tuning replications with every `radius_scale` of the grid, then the
evaluation with the literal scale, with the one of the least mean and with the one of the least 0.9-quantile on the
tuning replications. Whether robust policies pay is asked of one of them, chosen on the tuning replications too, so that
the evaluation compares two policies and picks none.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linbet_jax.bandits.bandit import LinearBandit
from linbet_jax.bandits.datasets import separating
from linbet_jax.bandits.separating import spike_size
from linbet_jax.experiments import shared
from linbet_jax.experiments.driver import CellResult, Experiment, Outputs, Progress, StudyCell, long_form
from linbet_jax.experiments.later import policies as own_policies
from linbet_jax.experiments.shared import Sample, Task
from linbet_jax.figures.plotting import ratio_map
from linbet_jax.noise import CenteredPareto, PayoffLaw, Spikes, StudentT
from linbet_jax.policies import entry
from linbet_jax.policies.registry import policy_label, pull_microseconds
from linbet_jax.statistics.intervals import Estimate, bootstrap_interval
from linbet_jax.statistics.regret import Summary, summarize
from linbet_jax.statistics.tables import aligned_table, grouped, interval, number, span
from linbet_jax.statistics.tuning import GRID, choose_scale, optimism
from linbet_jax.storage import provenance

SEED = 13  # of the experiment's key; tuning draws from the next one
SEEDS, TUNING_SEEDS, HORIZON = 128, 32, 10_000
FULL_SEEDS, FULL_TUNING_SEEDS, FULL_HORIZON = 1024, 64, 100_000
DELTA, RIDGE = 0.1, 1.0
ARMS, DIM, GAP = 10, 4, 0.3  # of the worlds where nothing else is said
NORMAL = 1e30  # degrees of freedom: the normal law to rounding, in the program of the other t laws
RARE = 1e-3  # probability of a spike
BULK = 0.6745  # the median of |noise|, that of a standard normal: laws differ in their tails
SHORTER = 0.95  # norm of the best arm
LONGEST = 30.0  # seconds of a core that a cell may take but with `full`
COSTLY = 2.0  # times OFUL a pull: a policy that costs more is left out, the paper's own apart
PAPER, REFERENCE = ("menu", "tofu"), "greedy"
TUNED = ("mean", 0.9)  # what a scale is chosen by
RADII = ("literal", "tuned by mean", "tuned by 0.9-quantile")
FAR = 0.99  # the quantile that is shown
FEW = (4, 8, 16)  # tuning seeds whose optimism is shown


class World(NamedTuple):
    """A bandit, the axis of the map that it lies on, and its horizon."""

    axis: str
    bandit: LinearBandit
    horizon: int


def sphere(num_arms: int, dim: int, gap: float, noise: PayoffLaw, epsilon: float, name: str) -> LinearBandit:
    """Arms of norm 1, the best of norm 0.95, so that nobody is right by playing the longest arm, or the first.

    The best has mean 0.9, the second 0.9 - gap, the others less; theta_star has norm 1.
    """
    random = np.random.default_rng([num_arms, dim])
    theta = np.eye(dim)[0]
    means = np.concatenate([[0.9, 0.9 - gap], random.uniform(-0.9, 0.9 - gap, num_arms - 2)])
    across = random.normal(size=(num_arms, dim - 1))
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    norms = np.where(np.arange(num_arms) == 0, SHORTER, 1.0)
    arms = np.column_stack([means, np.sqrt(norms**2 - means**2)[:, None] * across])
    return LinearBandit(np.roll(arms, 1 + num_arms // 2, axis=0), theta, noise, epsilon=epsilon, name=name)


def with_bulk(law: Callable[[float], Any]) -> Any:
    """The law of a family, given by its scale, whose median of |noise| is `BULK`."""
    standard = law(1.0)
    low, high = 0.0, 1e3
    for _ in range(80):
        middle = 0.5 * (low + high)
        within = standard.cdf(middle) - standard.cdf(-middle)
        low, high = (middle, high) if within < 0.5 else (low, middle)
    return law(BULK / high)


def worlds(horizon: int) -> dict[str, World]:
    """The map, by name; `horizon` is that of the worlds where no other is said."""
    laws: dict[str, tuple[str, Any]] = {
        **{f"t({df:g})": ("tail", with_bulk(functools.partial(StudentT, df))) for df in (1.2, 1.5, 2.0, 3.0)},
        "Gaussian": ("tail", StudentT(NORMAL)),
        **{f"Pareto({a:g})": ("skew", with_bulk(functools.partial(CenteredPareto, a))) for a in (1.5, 2.5)},
        "spikes up": ("skew", Spikes(spike_size(RARE, 1.0), RARE)),
        "spikes down": ("skew", Spikes(-spike_size(RARE, 1.0), RARE)),
    }

    def made(name: str, law: Any, num_arms: int = ARMS, dim: int = DIM, gap: float = GAP) -> LinearBandit:
        epsilon = min(1.0, round(0.9 * (law.max_order - 1.0), 3))
        return sphere(num_arms, dim, gap, law, epsilon, name)

    heavy = laws["t(1.5)"][1]
    found = {name: World(axis, made(name, law), horizon) for name, (axis, law) in laws.items()}
    for times, label in ((0.1, "T/10"), (10, "10 T")):
        found[f"t(1.5), {label}"] = World("T", made(f"t(1.5), {label}", heavy), int(horizon * times))
    found["t(1.5), K=50, d=10"] = World("K, d", made("t(1.5), K=50, d=10", heavy, 50, 10), horizon)
    for gap in (0.1, 0.6):
        name = f"t(1.5), gap {gap:g}"
        found[name] = World("gap", made(name, heavy, gap=gap), horizon)
    found |= {kind: World("instances", separating(kind), horizon) for kind in ("lock", "long", "trap")}
    found["lock, 10 T"] = World("instances", separating("lock"), 10 * horizon)
    return found


def players() -> list[str]:
    """OFUL first, greedy play last, and between them by rule the robust policies.

    These are the paper's two, and each policy that is proved for adaptive play under noise that need be neither
    sub-Gaussian nor symmetric, on arms that need not be orthonormal, at a cost of at most twice OFUL's a pull.
    """
    cost = functools.partial(pull_microseconds, num_arms=ARMS, dim=DIM)

    def robust(name: str) -> bool:
        about = entry(name)
        wide = about.assumption not in ("sub-Gaussian noise", "symmetric noise") and about.sets != "orthonormal"
        return name in PAPER or (about.valid == "adaptive" and wide and cost(name) <= COSTLY * cost("oful"))

    return ["oful", *filter(robust, own_policies()), REFERENCE]


def cells_of(
    played: Mapping[str, World], *, full: bool, tuning_seeds: int, **asked: Any
) -> tuple[list[Task], list[StudyCell], list[str]]:
    """Every player's task and cell in every world, and why others are not played."""
    programs = set()  # worlds of one shape and kind of law share one

    def cell(task: Task) -> StudyCell:
        program = (task.policy, task.bandit.num_arms, task.bandit.dim, task.horizon, type(task.bandit.noise))
        new = program not in programs
        programs.add(program)
        count = len(scales_of(task)) * tuning_seeds + (len(RADII) if task.tunable else 1) * task.seeds
        work = functools.partial(compute, tuning_seeds)
        return task.cell(work, replications=count, programs=int(new), tuning_seeds=tuning_seeds)

    constants: dict[str, Any] = {"scales": (1.0,), "delta": DELTA, "ridge": RIDGE, "key": SEED, **asked}
    tasks = [
        Task(place, world.bandit, provenance.instance_digest(world.bandit), name, world.horizon, **constants)
        for place, world in played.items()
        for name in players()
    ]
    return shared.affordable(tasks, cell, math.inf if full else LONGEST)


def plan(*, seeds: int | None, full: bool, dtype: str, horizon: int | None = None) -> Experiment:
    """128 seeds and T = 10,000; with `full` 1,024 seeds and T = 100,000."""
    pulls = horizon or (FULL_HORIZON if full else HORIZON)
    asked: dict[str, Any] = {"seeds": seeds or (FULL_SEEDS if full else SEEDS), "dtype": dtype}
    tuning_seeds = FULL_TUNING_SEEDS if full else TUNING_SEEDS
    played = worlds(pulls)
    tasks, cells, refused = cells_of(played, full=full, tuning_seeds=tuning_seeds, **asked)
    config = shared.config_of(tasks, **asked, full=full, horizon=pulls, tuning_seeds=tuning_seeds, grid=list(GRID))

    def show(results: Mapping[str, CellResult]) -> Outputs:
        found, notes = findings_of(tasks, tuning_seeds, results), shared.notes_in(results)
        about = ABOUT.format(arms=ARMS, dim=DIM, gap=GAP, horizon=pulls)
        return outputs("when", played, found, refused, notes, title="When robust policies pay", about=about)

    # Cells of one policy after each other: worlds of one shape and kind of law share its program.
    cells.sort(key=lambda cell: str(cell.identity["policy"]))
    return Experiment("when", config, dtype, cells, CODE, show)


def scales_of(task: Task) -> tuple[float, ...]:
    """What the tuning replications play: the grid, or 1 where there is no scale."""
    return GRID if task.tunable else (1.0,)


def compute(tuning_seeds: int, task: Task, progress: Progress) -> CellResult:
    """Tuning, then evaluation, through the same compiled program.

    What has no scale plays the tuning replications too: whether it is the robust policy of a contest is chosen on them.
    """
    tuning = dataclasses.replace(task, scales=scales_of(task), seeds=tuning_seeds, key=task.key + 1)
    first = shared.finals(tuning.play(progress))
    chosen = [choose_scale(first["regret"], first["health"], tuning.scales, criterion) for criterion in TUNED]
    task = dataclasses.replace(task, scales=(1.0, *chosen) if task.tunable else (1.0,))
    results = task.play(progress)
    columns = shared.two_stages(
        long_form({"radius_scale": tuning.scales, "seed": range(tuning_seeds)}, first),
        long_form({"radius_scale": task.scales, "seed": range(task.seeds)}, shared.finals(results)),
    )
    return CellResult(columns, {"chosen": chosen, "notes": shared.notes_of(results[:1])})


CODE = (*shared.CODE, compute, scales_of, sphere, with_bulk)


@dataclasses.dataclass(frozen=True)
class Finding:
    """One policy in one world."""

    samples: Sequence[Sample]  # with the scales of `RADII`; the same three times where nothing is tuned
    tuning: NDArray[np.float64]  # `[G, N]` final regret on the tuning replications; G = 1 where nothing is tuned
    tuning_health: NDArray[np.int64]  # likewise

    @property
    def task(self) -> Task:
        """What was played."""
        return self.samples[0].task

    @property
    def robust(self) -> bool:
        """Whether it is one of those that OFUL is compared with."""
        return self.task.policy not in ("oful", REFERENCE)

    def promised(self, radii: int, criterion: Any) -> float:
        """The criterion on the tuning replications with the scale of these radii; infinite where one is unhealthy."""
        row = 0 if len(self.tuning) == 1 else GRID.index(self.samples[radii].radius_scale)
        if np.any(self.tuning_health[row]):
            return math.inf
        return float(np.mean(self.tuning[row]) if criterion == "mean" else np.quantile(self.tuning[row], criterion))


def findings_of(tasks: Sequence[Task], tuning_seeds: int, results: Mapping[str, CellResult]) -> list[Finding]:
    """One for each task."""
    found = []
    for task in tasks:
        result = results[task.title]
        first = result.where("tuning", 1).shaped(len(scales_of(task)), tuning_seeds)
        last = result.where("tuning", 0).shaped(-1, task.seeds)
        scales = (1.0, *map(float, result.facts["chosen"]))
        # One row stands for all three where nothing is tuned.
        rows = zip(scales, itertools.cycle(last["regret"]), itertools.cycle(last["health"]), strict=False)
        found.append(Finding([Sample(task, *row) for row in rows], first["regret"], first["health"]))
    return found


class Contest(NamedTuple):
    """OFUL beside the robust policy that did best on the tuning replications, both with one kind of radii."""

    oful: Finding  # OFUL
    robust: Finding  # that policy
    mean: Summary  # its mean regret less OFUL's, seed by seed
    median: Estimate  # the difference of medians, with a bootstrap interval over the seeds that they share
    # that of the 0.99-quantiles, of the policy that is best by the 0.9-quantile of the tuning replications
    far: Estimate
    careful: Finding  # the policy that `far` is about


def contest(of_world: Sequence[Finding], radii: int) -> Contest:
    """Who wins."""
    oful = next(finding for finding in of_world if finding.task.policy == "oful")
    robust = [finding for finding in of_world if finding.robust]
    by_mean = min(robust, key=lambda finding: finding.promised(radii, "mean"))
    careful = min(robust, key=lambda finding: finding.promised(radii, 0.9))
    usual, first, far = (finding.samples[radii] for finding in (oful, by_mean, careful))
    apart = _quantiles_apart(first, usual, 0.5), _quantiles_apart(far, usual, FAR)
    return Contest(oful, by_mean, first.minus(usual), *apart, careful)


def _quantiles_apart(first: Sample, second: Sample, probability: float) -> Estimate:
    """A quantile of the first's regret less that of the second's; whole seeds are drawn again."""
    well = (first.health == 0) & (second.health == 0)
    a, b = first.regret[well], second.regret[well]

    def apart(seeds: NDArray[np.float64], *, axis: int) -> NDArray[np.float64]:
        drawn = seeds.astype(np.int64)
        return np.asarray(np.quantile(a[drawn], probability, axis=axis) - np.quantile(b[drawn], probability, axis=axis))

    return bootstrap_interval(np.arange(a.size), statistic=apart, method="percentile")


def verdict(difference: Summary | Estimate) -> str:
    """Who wins: an interval that holds 0 has no winner."""
    return "robust" if float(difference.high) < 0 else "OFUL" if float(difference.low) > 0 else "–"


LEGEND = (
    "Final pseudo-regret. Literal: with the constants of each policy's proof; tuned: every radius times the scale that "
    "was best on {tuning} other seeds, by the mean or by the 0.9-quantile. Robust: the policy that is best of {names} "
    "on the tuning seeds, tuned or not, by their mean or, for the 0.99-quantile and the share that is lost, by their "
    "0.9-quantile; the evaluation picks nothing. Differences: robust less OFUL on the same seeds, with 95% intervals "
    "(Student t for means, bootstrap over seeds for quantiles); a negative one is the robust policy's. Lost: share of "
    "seeds with more than half of uniform play's mean regret, with its 95% Clopper-Pearson interval. {about}"
)
ABOUT = (
    "Noise has the median |noise| of a standard normal (spikes: variance 1; lock, long and trap: see the bandits' "
    "README); ε = min(1, 0.9 (tail index - 1)). K = {arms}, d = {dim}, arms of norm 1 but for the best of 0.95, gap "
    "{gap:g} and T = {horizon:,} where nothing else is said."
)
HEADER = (
    "world", "OFUL", "robust", "its mean", "mean apart", "median apart", "0.99-quantile apart", "mean", "median",
    "0.99",
)  # fmt: skip
NOTE = (
    "Final regret as a percentage of uniform play's mean: mean first, 0.99-quantile over seeds below it. Left each "
    "policy with the constants of its proof, right with the scale that was best by mean on {tuning} other seeds. "
    "Colour compares with OFUL in the same half: blue is less regret, red is more. Empty: not played."
)


def outputs(
    name: str,
    played: Mapping[str, World],
    found: Sequence[Finding],
    refused: Sequence[str],
    notes: Sequence[str],
    *,
    title: str,
    about: str,
) -> Outputs:
    """Tables, the map and the documents of this study or of another one with the same cells."""
    task = found[0].task
    places = grouped(found, lambda finding: finding.task.place)
    robust = [policy_label(n) for n in dict.fromkeys(finding.task.policy for finding in found if finding.robust)]
    tuning = found[0].tuning.shape[1]
    legend = LEGEND.format(tuning=tuning, names=", ".join(robust), about=about)
    unhealthy = sum(sample.unhealthy for finding in found for sample in finding.samples)
    title = f"{title} ({task.setting})"
    markdown, text, records = [f"# {title}", "", legend, ""], [title], []
    contests = {place: [contest(of_world, radii) for radii in range(len(RADII))] for place, of_world in places.items()}
    for radii, kind in enumerate(RADII):
        rows = []
        for place, of_place in contests.items():
            row, record = _contest_row(place, of_place[radii], radii)
            rows.append(row)
            records.append({"axis": played[place].axis, **record})
        text += ["", f"OFUL and the best robust policy, {kind}", aligned_table(HEADER, rows, left=1)]
        markdown += shared.section(f"OFUL and the best robust policy, {kind}", HEADER, rows)
    for heading, header, rows in (_lost(contests), _tuned_by(contests), _optimism(found)):
        text += ["", heading, aligned_table(header, rows, left=1)]
        markdown += shared.section(heading, header, rows)
    markdown += shared.listed("What is not played", [f"{reason}." for reason in refused])
    markdown += shared.notes_section(notes, unhealthy)
    text += ["", legend, *shared.unhealthy_line(unhealthy)]
    documents = {
        f"{name}.md": "\n".join(markdown),
        f"{name}.csv": shared.csv_of(records),
        f"{name}-policies.csv": shared.csv_of(
            [_record(*row) for f in found for row in zip(RADII, f.samples, strict=True)]
        ),
    }
    return Outputs("\n".join(text), {name: _map(places, title, tuning)}, documents, unhealthy)


def _contest_row(place: str, result: Contest, radii: int) -> tuple[list[str], dict[str, object]]:
    oful, robust, careful = (finding.samples[radii] for finding in (result.oful, result.robust, result.careful))
    differences: tuple[Summary | Estimate, ...] = (result.mean, result.median, result.far)
    values = [float(result.mean.mean), float(result.median.value), float(result.far.value)]
    apart = [f"{number(v)} {interval(d)}" for v, d in zip(values, differences, strict=True)]
    row = [place, number(oful.summary.mean), robust.label, number(robust.summary.mean)]
    record: dict[str, object] = {"world": place, "radii": RADII[radii], "oful_scale": oful.radius_scale}
    record |= {"robust": robust.task.policy, "robust_scale": robust.radius_scale}
    record |= {"careful": careful.task.policy, "careful_scale": careful.radius_scale}
    for name, value, difference in zip(("mean", "median", "far"), values, differences, strict=True):
        record |= {name: value, f"{name}_low": float(difference.low), f"{name}_high": float(difference.high)}
    return [*row, *apart, *map(verdict, differences)], record


def uniform_mean(task: Task) -> float:
    """Mean regret of uniform play, exactly."""
    means = np.asarray(task.bandit.means)
    return float(task.horizon * (np.max(means) - np.mean(means)))


def _lost(contests: Mapping[str, Sequence[Contest]]) -> tuple[str, list[str], list[list[str]]]:
    rows = []
    for place, of_place in contests.items():
        row = [place]
        for radii, result in enumerate(of_place[:2]):
            for sample in (result.oful.samples[radii], result.careful.samples[radii]):
                share = sample.summary.exceeding(0.5 * uniform_mean(sample.task))
                row.append(f"{sample.label}: {span(share.value, share.low, share.high, digits=2)}")
        rows.append(row)
    return (
        "Share of seeds that are lost; the robust policy is the one that is best by the 0.9-quantile",
        ["world", "OFUL, literal", "robust, literal", "OFUL, tuned", "robust, tuned"],
        rows,
    )


def _tuned_by(contests: Mapping[str, Sequence[Contest]]) -> tuple[str, list[str], list[list[str]]]:
    """For OFUL and the best robust policy: what the 0.9-quantile as a criterion changes."""
    rows = []
    for place, (_, result, _) in contests.items():
        for finding in (result.oful, result.robust):
            _, by_mean, by_far = finding.samples
            row = [place, finding.task.label, f"×{by_mean.radius_scale:g}", f"×{by_far.radius_scale:g}"]
            if by_mean.radius_scale == by_far.radius_scale:
                rows.append([*row, "the same", "the same"])
                continue
            ends = [number(float(sample.summary.quantile(FAR))) for sample in (by_mean, by_far)]
            rows.append([*row, shared.mean_text(by_far.minus(by_mean)), " to ".join(ends)])
    header = ["world", "policy", "by mean", "by 0.9-quantile", "mean regret changes by", "0.99-quantile, from and to"]
    return "Tuned by the 0.9-quantile instead of the mean", header, rows


def _optimism(found: Sequence[Finding]) -> tuple[str, list[str], list[list[str]]]:
    """How much too good the best of seven scales looks on few seeds, as a share of uniform play's regret."""
    rows = []
    for policy, of_policy in grouped([f for f in found if len(f.tuning) > 1], lambda f: f.task.policy).items():
        row = [policy_label(policy)]
        for few in FEW:
            sound = [f for f in of_policy if not np.any(f.tuning_health) and f.tuning.shape[1] >= 2 * few]
            shares = [float(optimism(f.tuning, few).mean) / uniform_mean(f.task) for f in sound]
            row.append(shared.mean_text(summarize(100 * np.array(shares))) if shares else "–")
        rows.append(row)
    header = ["policy", *(f"{few} seeds, %" for few in FEW)]
    return "Optimism of the best scale: regret on other seeds less what was promised, mean over worlds", header, rows


def _map(places: Mapping[str, Sequence[Finding]], title: str, tuning: int) -> Any:
    names = list(dict.fromkeys(finding.task.policy for of_world in places.values() for finding in of_world))
    shape = (len(places), 2 * len(names))
    above, below, ratio = (np.full(shape, np.nan) for _ in range(3))
    for row, of_world in enumerate(places.values()):
        uniform = uniform_mean(of_world[0].task)
        oful = next(finding for finding in of_world if finding.task.policy == "oful")
        for finding in of_world:
            for radii in (0, 1):
                end, base = finding.samples[radii].summary, float(oful.samples[radii].summary.mean)
                column = radii * len(names) + names.index(finding.task.policy)
                above[row, column] = 100 * float(end.mean) / uniform
                below[row, column] = 100 * float(end.quantile(FAR)) / uniform
                least = 1e-3 * uniform  # what is less is as good as nothing
                ratio[row, column] = math.log10(max(float(end.mean), least) / max(base, least))
    columns = [policy_label(name) for name in names] * 2
    halves = ("with the constants of the proofs", "with tuned radii")
    return ratio_map(
        ratio, above, below, rows=list(places), columns=columns, halves=halves, title=title,
        note=NOTE.format(tuning=tuning),
    )  # fmt: skip


def _record(radii: str, sample: Sample) -> dict[str, object]:
    end = sample.summary
    return {
        "world": sample.task.place,
        "policy": sample.task.policy,
        "radii": radii,
        "radius_scale": sample.radius_scale,
        "seeds": end.n,
        "unhealthy": end.unhealthy,
        **shared.statistics_of("", end, "mean", "low", "high", "median"),
        "quantile_0.99": float(end.quantile(FAR)),
    }
