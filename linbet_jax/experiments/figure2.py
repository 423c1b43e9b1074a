"""Figure 2 of the paper, done properly: every policy on every data set, literal and tuned radii.

A cell is one policy on one data set. It first plays the tuning replications with every `radius_scale` of the grid, then
the evaluation replications with the literal scale 1 and with the scale of the smallest mean final regret. Tuning draws
from another key, so the evaluation never sees what the choice was made on.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from linbet_jax.bandits.datasets import DATASETS
from linbet_jax.experiments import shared
from linbet_jax.experiments.driver import CellResult, Experiment, Outputs, Progress, long_form
from linbet_jax.experiments.shared import POLICIES, Task
from linbet_jax.experiments.table1 import data_set_names
from linbet_jax.figures.plotting import Curve, Panel, panel_figure, policy_label, tuning_figure
from linbet_jax.statistics.regret import Summary, paired_difference, summarize
from linbet_jax.statistics.tables import aligned_table, grouped, interval, markdown_table, number
from linbet_jax.statistics.tuning import GRID, TUNING, TuningCurve
from linbet_jax.storage import provenance

RADII = ("literal", "tuned")
RECORDS = 200
SEED = 0  # of the experiment's key
WORKERS = 2  # one cell compiles while another runs: a tenth faster on two cores, the same numbers
_ROUNDING = 1e-6  # relative; float32 sums of gaps agree to about that


def plan(
    *,
    sets: Sequence[str] | None = None,
    seeds: int = 10,
    tuning_seeds: int = 10,
    horizon: int | None = None,
    dtype: str = "float64",
) -> Experiment:
    """Every policy on every set, or on those that are named; T is the paper's unless one is given for all.

    Sets are in the order of the panels; `tuning_seeds` replications choose the scale, `seeds` others are shown.
    """
    settings: dict[str, Any] = {"seeds": seeds, "dtype": dtype, "scales": GRID, "key": SEED}
    names = data_set_names(sets)
    tasks = [Task.on(name, policy, horizon=horizon, **settings) for name in names for policy in POLICIES]
    replications = len(GRID) * tuning_seeds + len(RADII) * seeds
    cells, tuning = [], {"tuning_seeds": tuning_seeds, "tuning_fold": TUNING}
    for task in tasks:
        _, [params, *_] = task.made()
        numbers = {name: value for name, value in params._asdict().items() if name != "radius_scale"}
        identity: dict[str, Any] = {"records": RECORDS, "params": numbers, **tuning}
        cell = task.cell(functools.partial(_compute, tuning_seeds), replications=replications, **identity)
        cells.append(cell._replace(line=functools.partial(_line, task)))
    config = shared.config_of(
        tasks,
        sets=list(names),
        policies=list(POLICIES),
        seeds=seeds,
        tuning_seeds=tuning_seeds,
        horizon="paper" if horizon is None else horizon,
        delta=tasks[0].delta,
        ridge=tasks[0].ridge,
        radius_scale_grid=list(GRID),
        records=RECORDS,
        key={"seed": SEED, "tuning_fold": TUNING},
    )

    def show(results: Mapping[str, CellResult]) -> Outputs:
        runs = [run for task in tasks for run in _runs(task, results[task.title])]
        tuning = [_tuning(task, results[task.title]) for task in tasks]
        mark = "" if horizon is None else f"QUICK LOOK at T={horizon}, not the paper's T"
        return _outputs(Figure2Runs(runs, tuning, _notes(results), tuning_seeds, mark))

    notice = "" if horizon is None else f"quick look: horizon {horizon}, not the paper's; every output says so"
    return Experiment("figure2", config, dtype, cells, (*shared.CODE, _compute), show, WORKERS, notice)


def _compute(tuning_seeds: int, task: Task, progress: Progress) -> CellResult:
    """Tuning, then evaluation through the same compiled program."""
    tuning, chosen = task.tuned(tuning_seeds, progress, num_records=RECORDS)
    promised = shared.finals(tuning)
    # Two different scales even where tuning chose 1: one alone would be another program, and compile again.
    evaluation = dataclasses.replace(task, scales=(1.0, chosen if chosen != 1.0 else GRID[1]))
    results = evaluation.play(progress, num_records=RECORDS)[: 1 if chosen == 1.0 else 2]
    columns = shared.two_stages(
        long_form(
            {"radius_scale": GRID, "seed": range(tuning_seeds), "pull": [task.horizon]},
            {"regret": promised["regret"][..., None], "payoff": np.nan, "health": promised["health"][..., None]},
        ),
        long_form(
            {"radius_scale": evaluation.scales[: len(results)], "seed": range(task.seeds), "pull": results[0].rounds},
            {
                "regret": shared.stacked(results, "regret"),
                "payoff": shared.stacked(results, "payoff"),
                "health": shared.finals(results)["health"][..., None],
            },
        ),
    )
    facts = {
        "chosen_radius_scale": chosen,
        "facts": dict(results[0].facts),
        "notes": shared.notes_of([*tuning, *results]),
        "block_size": results[0].block_size,
        "device": results[0].device,
        "prng": results[0].prng,
        "reruns": {
            stage: sum(result.reruns for result in played)
            for stage, played in (("tuning", tuning), ("evaluation", results))
        },
    }
    seconds = {
        "compile": tuning[0].compile_seconds + results[0].compile_seconds,
        "tuning": tuning[0].run_seconds,
        "evaluation": results[0].run_seconds,
    }
    return CellResult(columns, facts, seconds)


@dataclasses.dataclass(frozen=True)
class CurveRun:
    """One policy on one data set with one radius scale: `[S, R]` regret and payoff, `[S]` health."""

    task: Task
    radii: str
    radius_scale: float
    rounds: NDArray[np.int64]
    regret: NDArray[np.float64]
    payoff: NDArray[np.float64]
    health: NDArray[np.int64]

    def curve(self, quantity: str) -> Summary:
        """Summary `[R]` of "regret" or "payoff"."""
        return summarize(getattr(self, quantity), self.health)

    def final(self, quantity: str) -> Summary:
        """Summary `[]` at the horizon."""
        return summarize(getattr(self, quantity)[:, -1], self.health)

    @property
    def in_pair(self) -> bool:
        """Whether the paper ran the policy on the set."""
        return self.task.policy in DATASETS[self.task.place].policies


def _runs(task: Task, result: CellResult) -> tuple[CurveRun, CurveRun]:
    """The literal and the tuned run of a cell; they are one and the same where tuning chose the literal scale."""
    evaluation = result.where("tuning", 0)
    rounds = np.unique(evaluation.columns["pull"])
    columns = evaluation.shaped(-1, task.seeds, rounds.size)  # scales, seeds, records

    def run(radii: str, scale: int) -> CurveRun:
        radius_scale = float(columns["radius_scale"][scale, 0, 0])
        curves = (columns["regret"][scale], columns["payoff"][scale])
        return CurveRun(task, radii, radius_scale, rounds, *curves, columns["health"][scale, :, 0])

    return run("literal", 0), run("tuned", -1)


def _tuning(task: Task, result: CellResult) -> TuningCurve:
    columns = result.where("tuning", 1).shaped(len(GRID), -1)
    return TuningCurve(
        policy=task.policy,
        bandit=task.place,
        horizon=task.horizon,
        grid=GRID,
        criterion="mean",
        regret=columns["regret"],
        health=columns["health"],
        chosen=result.facts["chosen_radius_scale"],
    )


def _line(task: Task, result: CellResult) -> str:
    """What is said when a cell is finished."""
    literal, tuned = _runs(task, result)
    regret = [_mean_sd(run.final("regret")) for run in (literal, tuned)]
    return f"  regret {regret[0]} literal, {regret[1]} at ×{tuned.radius_scale:g}"


def _notes(results: Mapping[str, CellResult]) -> list[str]:
    """What the cells have to say beside numbers, each sentence once, with the cells it is about."""
    notes = []
    for title, result in results.items():
        notes += [(note, title) for note in result.facts["notes"]]
        again = sum(result.facts["reruns"].values())
        if again:
            notes.append(("Replications repeated with a larger buffer (none was dropped)", f"{title}: {again}"))
    groups = grouped(notes, lambda note: note[0])
    return [f"{note} ({', '.join(where for _, where in of_note)})." for note, of_note in groups.items()]


class Claim(NamedTuple):
    """The paper says that the first run's policy earns more than the second's: what these runs say.

    The verdict rests on pseudo-regret, what the arms played cost on average. The payoffs that were realised add the
    noise to that, whose variance is infinite under Pareto(2): an interval around their difference promises little.
    """

    first: CurveRun
    second: CurveRun

    def difference(self, quantity: str) -> Summary:
        """First minus second of "regret" or "payoff" at the horizon, seed by seed."""
        first, second = (getattr(run, quantity)[:, -1] for run in self)
        return paired_difference(first, second, self.first.health, self.second.health)

    @property
    def pair(self) -> str:
        """What is subtracted from what."""
        return " - ".join(policy_label(run.task.policy, run.radius_scale) for run in self)

    @property
    def verdict(self) -> str:
        """Which of the two is ahead, where the interval of the regret difference says so."""
        regret = self.difference("regret")
        if not regret.has_band:
            return "no interval from one seed" if regret.n else "no seed healthy under both"
        # Two policies that play the same arms in another order add the same gaps in another order.
        rounding = _ROUNDING * max(abs(float(run.final("regret").mean)) for run in self)
        names = [run.task.label for run in self]
        if float(regret.high) < -rounding:
            return f"{names[0]} ahead, as in the paper"
        return f"{names[1]} ahead, against the paper" if float(regret.low) > rounding else "no difference beyond chance"

    @property
    def sentence(self) -> str:
        """The differences, their intervals and the verdict."""
        regret, payoff = (shared.mean_text(self.difference(quantity)) for quantity in ("regret", "payoff"))
        return f"regret {self.pair} = {regret}: {self.verdict} (payoff difference {payoff})"


class Figure2Runs(NamedTuple):
    """Everything that the outputs show."""

    runs: Sequence[CurveRun]  # two of every cell, literal and tuned
    tuning: Sequence[TuningCurve]  # of every cell
    notes: Sequence[str]  # sentences that must travel with the numbers
    tuning_seeds: int  # tuning replications
    mark: str  # what must be seen on everything that does not have the paper's horizon; empty otherwise

    @property
    def sets(self) -> dict[str, list[CurveRun]]:
        """The runs of every set."""
        return grouped(self.runs, lambda run: run.task.place)

    @property
    def claims(self) -> list[Claim]:
        """Of every set, under both radii."""
        runs = {(run.task.place, run.task.policy, run.radii): run for run in self.runs}
        return [
            Claim(*(runs[set_name, policy, radii] for policy in DATASETS[set_name].policies))
            for set_name in self.sets
            for radii in RADII
        ]

    @property
    def unhealthy(self) -> int:
        """Replications that met something non-finite, in tuning and evaluation; a shared run counts once."""
        evaluation = {(run.task.title, run.radius_scale): np.count_nonzero(run.health) for run in self.runs}
        return int(sum(evaluation.values()) + sum(np.count_nonzero(curve.health) for curve in self.tuning))

    @property
    def heading(self) -> str:
        """One line that says what this is, and that it is not the paper's horizon where it is not."""
        return "; ".join(filter(None, (self.runs[0].task.setting, self.mark)))

    def marked(self, title: str) -> str:
        """A figure's title, with the mark below it."""
        return "\n".join(filter(None, (title, self.mark)))


def _outputs(report: Figure2Runs) -> Outputs:
    title, note = "Tuning: regret against radius_scale", TUNING_NOTE.format(seeds=report.tuning_seeds)
    figures = {
        "figure2": _figure(report, "payoff"),
        "figure2_regret": _figure(report, "regret"),
        "figure2_tuning": tuning_figure(report.tuning, title=report.marked(title), note=note),
    }
    records = [record for run in report.runs for record in _records(run, bool(report.mark))]
    documents = {"table.md": _markdown(report), "curves.csv": shared.csv_of(records)}
    instances = {
        name: {
            "hash": run.task.instance,
            "K": run.task.bandit.num_arms,
            "d": run.task.bandit.dim,
            "law": run.task.bandit.noise.name,
            "best_mean": run.task.bandit.best_mean,
            **provenance.constants(run.task.bandit),
        }
        for name, [run, *_] in report.sets.items()
    }
    sections = {"quick_look": bool(report.mark), "instances": instances}
    return Outputs(_terminal_text(report), figures, documents, report.unhealthy, sections=sections)


def _mean_sd(summary: Summary, *, unit: str = " sd") -> str:
    """Mean and standard deviation, e.g. `21,389 ± 120 sd`; the mean alone for one seed.

    A table whose heading says what follows the ± leaves `unit` empty.
    """
    if summary.n == 0:
        return "none healthy"
    mean = number(summary.mean)
    return f"{mean} ± {number(summary.sd)}{unit}" if summary.has_band else mean


def _terminal_text(report: Figure2Runs) -> str:
    """Final payoff and regret, mean ± sd over seeds, under both kinds of radii, and the paper's claim."""
    header = ("set", "policy", "payoff, literal", "regret, literal", "scale", "payoff, tuned", "regret, tuned")
    rows = []
    for literal, tuned in zip(report.runs[::2], report.runs[1::2], strict=True):
        names = (literal.task.place, literal.task.label + "*" * literal.in_pair)
        before, after = ([_mean_sd(run.final(q), unit="") for q in ("payoff", "regret")] for run in (literal, tuned))
        rows.append((*names, *before, f"×{tuned.radius_scale:g}", *after))
    lines = [
        f"Final cumulative payoff and pseudo-regret, mean ± sd ({report.heading})",
        aligned_table(header, rows, left=2),
        "",
        "* the paper's pair; its difference in pseudo-regret, seed by seed (same noise), with a 95% interval:",
    ]
    lines += [f"  {claim.first.task.place} {claim.first.radii}: {claim.sentence}" for claim in report.claims]
    return "\n".join([*lines, *shared.unhealthy_line(report.unhealthy)])


SPREAD = {  # by quantity: how its spread is drawn, and what a note says of that
    "payoff": ("sd", "Bars: one standard deviation"),
    "regret": ("interval", "Bands: 95% interval of the mean (Student t), clipped at 0: regret cannot be negative"),
}
WHAT = {"payoff": "cumulative payoff", "regret": "cumulative pseudo-regret"}
NOTE = (
    "Bold: the pair the paper ran on the set. {spread}. Coloured dashes: the curve lies on another one. "
    "Literal: every radius as published (×1). Tuned: times the scale with the least mean regret on the same "
    "instance under other noise ({seeds} other seeds), one grid for all."
)
TUNING_NOTE = (
    "Mean final regret over {seeds} tuning seeds, which the evaluation never uses, with 95% "
    "intervals (Student t, clipped at 0). Diamonds: the scale of the least mean; edge: it is the first or the "
    "last of the grid, and a wider one might hold a better scale."
)


def _figure(report: Figure2Runs, quantity: str) -> Figure:
    """Literal radii above, tuned ones below, one column per data set."""

    def panel(radii: str, runs: Sequence[CurveRun]) -> Panel:
        curves = [
            Curve(run.task.policy, run.radius_scale, run.rounds, run.curve(quantity), bold=run.in_pair)
            for run in runs
            if run.radii == radii
        ]
        task = runs[0].task
        best = task.bandit.best_mean if quantity == "payoff" else None
        return Panel(task.described, curves, reference=best, reference_label="best arm")

    spread, shown = SPREAD[quantity]
    setting = shared.unbroken(report.runs[0].task.setting)
    return panel_figure(
        [(f"{radii} radii", [panel(radii, runs) for runs in report.sets.values()]) for radii in RADII],
        quantity=WHAT[quantity],
        spread=spread,
        nonnegative=quantity == "regret",
        title=report.marked(f"{WHAT[quantity].capitalize()}, mean over {setting}"),
        note=NOTE.format(spread=shown, seeds=report.tuning_seeds),
    )


def _records(run: CurveRun, quick_look: bool) -> Iterator[dict[str, object]]:
    """One for every pull that is recorded."""
    summaries = {quantity: run.curve(quantity) for quantity in ("regret", "payoff")}
    played = {"set": run.task.place, "policy": run.task.policy, "radii": run.radii}
    horizon = {"horizon": int(run.rounds[-1]), "paper_horizon": "no" if quick_look else "yes"}
    seeds = {"seeds": summaries["regret"].n, "unhealthy": summaries["regret"].unhealthy}
    for index, pull in enumerate(run.rounds):
        numbers = {
            f"{quantity}_{name}": float(getattr(summary, name)[index])
            for quantity, summary in summaries.items()
            for name in ("mean", "sd", "low", "high")
        }
        yield {**played, "radius_scale": f"{run.radius_scale:g}", **horizon, "pull": int(pull), **seeds, **numbers}


def _markdown(report: Figure2Runs) -> str:
    """The full table, the paper's claim pair by pair, and what the scales were chosen on."""
    lines = [f"# Figure 2: final payoff and regret ({report.heading})", ""]
    lines += [
        "Cumulative realised payoff and pseudo-regret at the horizon. `radius_scale` multiplies every confidence",
        "radius; 1 is the papers' own. Tuned: the scale with the least mean final regret on replications of another",
        f"key ({report.tuning_seeds} of them: the same instance, other noise), chosen from one grid for all policies.",
        "Bold: the pair that the paper ran on the set. Interval: 95%, Student t over seeds; the figure clips it at 0",
        "where it is regret's.",
        "",
    ]
    header = ["policy", "radii", "radius_scale"]
    header += [f"{q} {c}" for q in ("payoff", "regret") for c in ("mean", "median", "sd", "interval")]
    for runs in report.sets.values():
        title = f"{runs[0].task.described}, T={runs[0].task.horizon}"
        lines += shared.section(title, [*header, "unhealthy"], map(_table_row, runs))
    lines += ["## The paper's claim: its own policy earns more", ""]
    lines += [
        "First minus second at the horizon, seed by seed under common random numbers, with 95% intervals. The reading",
        "rests on pseudo-regret (less is better), the expected cost of the arms played. Realised payoffs add noise, of",
        "infinite variance under Pareto(2), so their interval promises little there.",
        "",
    ]
    columns = ("difference", "sd", "interval")
    header = ["set", "radii", "pair", *(f"regret {c}" for c in columns), "reading", *(f"payoff {c}" for c in columns)]
    lines += markdown_table([*header, "seeds"], map(_claim_row, report.claims))
    header = ["set", "policy", *(f"×{scale:g}" for scale in GRID), "unhealthy"]
    lines += shared.section("Tuning: mean final regret by radius_scale", header, map(_tuning_row, report.tuning))
    return "\n".join([*lines, *shared.listed("Notes", report.notes)])


def _table_row(run: CurveRun) -> list[str]:
    name, cells = run.task.label, []
    for summary in (run.final("payoff"), run.final("regret")):
        cells += [number(summary.mean), number(summary.median), number(summary.sd), interval(summary)]
    unhealthy = f"{np.count_nonzero(run.health)} of {run.health.size}"
    return [f"**{name}**" if run.in_pair else name, run.radii, f"{run.radius_scale:g}", *cells, unhealthy]


def _claim_row(claim: Claim) -> list[str]:
    regret, payoff = (claim.difference(quantity) for quantity in ("regret", "payoff"))
    before, after = ([number(d.mean), number(d.sd), interval(d)] for d in (regret, payoff))
    return [claim.first.task.place, claim.first.radii, claim.pair, *before, claim.verdict, *after, str(regret.n)]


def _tuning_row(curve: TuningCurve) -> list[str]:
    means = [(scale, number(s.mean)) for scale, s in zip(curve.grid, curve.summaries, strict=True)]
    cells = [f"**{mean}**" if scale == curve.chosen else mean for scale, mean in means]
    return [curve.bandit, policy_label(curve.policy), *cells, str(np.count_nonzero(curve.health))]
