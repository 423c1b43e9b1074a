"""Figure 2 of the paper, done properly: every policy on every data set, literal and tuned radii.

A cell is one policy on one data set. It first plays the tuning replications with every `radius_scale` of the grid, then
the evaluation replications with the literal scale 1 and with the scale of the smallest mean final regret. Tuning draws
from another key, so the evaluation never sees what the choice was made on.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from linbet_jax.bandits.datasets import DATASETS
from linbet_jax.experiments import shared
from linbet_jax.experiments.driver import Cell, CellResult, Outputs, Plan, Progress, long_form
from linbet_jax.experiments.shared import Task
from linbet_jax.experiments.table1 import data_set_names
from linbet_jax.figures.plotting import Curve, Panel, panel_figure, policy_label, tuning_figure
from linbet_jax.statistics.regret import Summary, paired_difference, summarize
from linbet_jax.statistics.tables import aligned_table, csv_text, interval, markdown_table, number
from linbet_jax.statistics.tuning import GRID, TUNING, TuningCurve
from linbet_jax.storage import provenance

__all__ = ["POLICIES", "plan"]

POLICIES = ("menu", "mom", "tofu", "crt", "oful")
RADII = ("literal", "tuned")
RECORDS = 200
SEED = 0  # of the experiment's key
WORKERS = 2  # one cell compiles while another runs: a tenth faster on two cores, the same numbers
_ROUNDING = 1e-6  # relative; float32 sums of gaps agree to about that


# What is played ------------------------------------------------------------------------------------------------------


def plan(
    *,
    sets: Sequence[str] | None = None,
    seeds: int = 10,
    tuning_seeds: int = 10,
    horizon: int | None = None,
    dtype: str = "float64",
) -> Plan:
    """Every policy on every set, or on those that are named; T is the paper's unless one is given for all.

    Args:
        sets: names among the data sets, in the order of the panels.
        seeds: evaluation replications.
        tuning_seeds: replications that choose the scale.
        horizon: T, pulls.
        dtype: "float64" or "float32".

    Raises:
        InputError: an unknown data set, or a horizon that a policy cannot have.
    """
    known: dict[str, Any] = {"seeds": seeds, "dtype": dtype, "scales": GRID, "key": SEED}
    names = data_set_names(sets)
    tasks = [Task.on(name, policy, horizon=horizon, **known) for name in names for policy in POLICIES]
    cells = [_cell(task, tuning_seeds) for task in tasks]
    config = {
        "sets": list(names),
        "policies": list(POLICIES),
        "seeds": seeds,
        "tuning_seeds": tuning_seeds,
        "horizon": "paper" if horizon is None else horizon,
        "delta": tasks[0].delta,
        "ridge": tasks[0].ridge,
        "radius_scale_grid": list(GRID),
        "records": RECORDS,
        "key": {"seed": SEED, "tuning_fold": TUNING},
        "instances": {task.place: task.instance for task in tasks},
    }

    def show(results: Mapping[str, CellResult]) -> Outputs:
        runs = [run for task in tasks for run in _runs(task, results[task.title])]
        tuning = [_tuning(task, results[task.title]) for task in tasks]
        return _outputs(Report(runs, _notes(results), tuning, tuning_seeds, horizon is not None))

    quick = f"quick look: horizon {horizon}, not the paper's; every output says so"
    return Plan(
        "figure2",
        config,
        dtype,
        cells,
        code=(*shared.CODE, _compute),
        show=show,
        workers=WORKERS,
        notice="" if horizon is None else quick,
    )


def _cell(task: Task, tuning_seeds: int) -> Cell:
    """A task's piece of work.

    Raises:
        InputError: a horizon that the policy cannot have.
    """
    _, [params, *_] = task.made()
    identity = {**task.identity, "tuning_seeds": tuning_seeds, "tuning_fold": TUNING, "records": RECORDS}
    identity["params"] = {name: value for name, value in params._asdict().items() if name != "radius_scale"}
    both = dataclasses.replace(task, scales=(1.0,), seeds=len(GRID) * tuning_seeds + 2 * task.seeds)
    compute, line = functools.partial(_compute, task, tuning_seeds), functools.partial(_line, task)
    return both.cell()._replace(identity=identity, compute=compute, line=line)


def _compute(task: Task, tuning_seeds: int, progress: Progress) -> CellResult:
    """Tuning, then evaluation through the same compiled program."""
    tuning = task.tuned(tuning_seeds, progress, num_records=RECORDS)
    chosen = tuning.chosen
    # Two different scales even where tuning chose 1: one alone would be another program, and compile again.
    evaluation = dataclasses.replace(task, scales=(1.0, chosen if chosen != 1.0 else GRID[1]))
    results = evaluation.play(progress, num_records=RECORDS)[: 1 if chosen == 1.0 else 2]
    columns = shared.two_stages(
        long_form(
            {"radius_scale": GRID, "seed": range(tuning_seeds), "pull": [task.horizon]},
            {"regret": tuning.regret[..., None], "payoff": np.nan, "health": tuning.health[..., None]},
        ),
        long_form(
            {
                "radius_scale": evaluation.scales[: len(results)],
                "seed": range(task.seeds),
                "pull": results[0].rounds,
            },
            {
                "regret": np.stack([np.asarray(result.regret, np.float64) for result in results]),
                "payoff": np.stack([np.asarray(result.payoff, np.float64) for result in results]),
                "health": np.stack([result.health for result in results])[..., None],
            },
        ),
    )
    facts = {
        "chosen_radius_scale": chosen,
        "facts": dict(results[0].facts),
        "notes": sorted({*tuning.notes, *shared.notes_of(results)}),
        "block_size": results[0].block_size,
        "device": results[0].device,
        "prng": results[0].prng,
        "reruns": {"tuning": tuning.reruns, "evaluation": sum(result.reruns for result in results)},
    }
    seconds = {
        "compile": tuning.compile_seconds + results[0].compile_seconds,
        "tuning": tuning.run_seconds,
        "evaluation": results[0].run_seconds,
    }
    return CellResult(columns, facts, seconds)


# From numbers to a report --------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Run:
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


@dataclasses.dataclass(frozen=True)
class Report(shared.Report):
    """Two runs of every cell, literal and tuned.

    Attributes:
        tuning: of every cell.
        tuning_seeds: tuning replications.
        quick_look: whether the horizons are not the paper's.
    """

    tuning: Sequence[TuningCurve]
    tuning_seeds: int
    quick_look: bool

    @property
    def sets(self) -> dict[str, Task]:
        """A task of every set."""
        return {run.task.place: run.task for run in self.runs}

    @property
    def unhealthy(self) -> int:
        """Replications that met something non-finite, in tuning and evaluation; a shared run counts once."""
        evaluation = {(run.task.title, run.radius_scale): np.count_nonzero(run.health) for run in self.runs}
        return int(sum(evaluation.values()) + sum(np.count_nonzero(curve.health) for curve in self.tuning))

    def find(self, set_name: str, policy: str, radii: str) -> Run:
        """One run by name."""
        [run] = [r for r in self.runs if (r.task.place, r.task.policy, r.radii) == (set_name, policy, radii)]
        return run

    @property
    def mark(self) -> str:
        """What must be seen on everything that does not have the paper's horizon; empty otherwise."""
        return f"QUICK LOOK at T={self.runs[0].task.horizon}, not the paper's T" if self.quick_look else ""

    @property
    def heading(self) -> str:
        """One line that says what this is, and that it is not the paper's horizon where it is not."""
        return f"{self.setting}; {self.mark}" if self.mark else self.setting

    def marked(self, title: str) -> str:
        """A figure's title, with the mark below it."""
        return f"{title}\n{self.mark}" if self.mark else title


def _title(task: Task) -> str:
    """A set's heading."""
    return f"{task.place}: {task.bandit.noise.name}, K={task.bandit.num_arms}, d={task.bandit.dim}"


def _runs(task: Task, result: CellResult) -> list[Run]:
    """The literal and the tuned run of a cell; they are one and the same where tuning chose the literal scale."""
    columns = result.where("tuning", 0)
    rounds = np.unique(columns["pull"])
    shape = (-1, task.seeds, rounds.size)  # scales, seeds, records
    scales = columns["radius_scale"].reshape(shape)[:, 0, 0]
    regret, payoff, health = (columns[name].reshape(shape) for name in ("regret", "payoff", "health"))
    return [
        Run(task, radii, float(scales[index]), rounds, regret[index], payoff[index], health[index, :, 0])
        for radii, index in (("literal", 0), ("tuned", -1))
    ]


def _tuning(task: Task, result: CellResult) -> TuningCurve:
    columns = result.where("tuning", 1)
    return TuningCurve(
        policy=task.policy,
        bandit=task.place,
        horizon=task.horizon,
        grid=GRID,
        criterion="mean",
        regret=columns["regret"].reshape(len(GRID), -1),
        health=columns["health"].reshape(len(GRID), -1),
        chosen=result.facts["chosen_radius_scale"],
    )


def _notes(results: Mapping[str, CellResult]) -> list[str]:
    """What the cells have to say beside numbers, each sentence once, with the cells it is about."""
    about: dict[str, list[str]] = {}
    for title, cell in results.items():
        for note in cell.facts["notes"]:
            about.setdefault(note, []).append(title)
        again = sum(cell.facts["reruns"].values())
        if again:
            note = "Replications repeated with a larger buffer (none was dropped)"
            about.setdefault(note, []).append(f"{title}: {again}")
    return [f"{note} ({', '.join(where)})." for note, where in about.items()]


def _line(task: Task, result: CellResult) -> str:
    """What is said when a cell is finished."""
    literal, tuned = _runs(task, result)
    return (
        f"  regret {_mean_sd(literal.final('regret'))} literal, "
        f"{_mean_sd(tuned.final('regret'))} at ×{tuned.radius_scale:g}"
    )


# From a report to tables and figures ---------------------------------------------------------------------------------


def _outputs(report: Report) -> Outputs:
    figures = {
        "figure2": _figure(report, "payoff", "sd"),
        "figure2_regret": _figure(report, "regret", "interval"),
        "figure2_tuning": _tuning_picture(report),
    }
    documents = {"table.md": _markdown(report), "curves.csv": _curves(report)}
    instances = {
        name: {
            "hash": task.instance,
            "K": task.bandit.num_arms,
            "d": task.bandit.dim,
            "law": task.bandit.noise.name,
            "best_mean": task.bandit.best_mean,
            **provenance.constants(task.bandit),
        }
        for name, task in report.sets.items()
    }
    sections = {"quick_look": report.quick_look, "instances": instances}
    return Outputs(_terminal_table(report), figures, documents, report.unhealthy, sections=sections)


def _mean_sd(summary: Summary, *, unit: str = " sd") -> str:
    """Mean and standard deviation, e.g. `21,389 ± 120 sd`; the mean alone for one seed.

    A table whose heading says what follows the ± leaves `unit` empty.
    """
    if summary.n == 0:
        return "none healthy"
    mean = number(summary.mean)
    return f"{mean} ± {number(summary.sd)}{unit}" if summary.has_band else mean


def _terminal_table(report: Report) -> str:
    """The table for a terminal: final payoff and regret, mean ± sd over seeds, under both kinds of radii."""
    header = ("set", "policy", "payoff, literal", "regret, literal", "scale", "payoff, tuned", "regret, tuned")
    rows = []
    for run in report.runs:
        if run.radii == "literal":
            tuned = report.find(run.task.place, run.task.policy, "tuned")
            values = [_mean_sd(r.final(q), unit="") for r in (run, tuned) for q in ("payoff", "regret")]
            name = policy_label(run.task.policy) + "*" * run.in_pair
            rows.append((run.task.place, name, *values[:2], f"×{tuned.radius_scale:g}", *values[2:]))
    return "\n".join(
        [
            f"Final cumulative payoff and pseudo-regret, mean ± sd ({report.heading})",
            aligned_table(header, rows, left=2),
            "",
            "* the paper's pair; its difference in pseudo-regret, seed by seed (same noise), with a 95% interval:",
            *(f"  {claim.first.task.place} {claim.first.radii}: {claim.sentence}" for claim in _claims(report)),
            *shared.unhealthy_line(report.unhealthy),
        ]
    )


class _Claim(NamedTuple):
    """The paper says that the first run's policy earns more than the second's: what these runs say.

    The verdict rests on pseudo-regret, what the arms played cost on average. The payoffs that were realised add the
    noise to that, whose variance is infinite under Pareto(2): an interval around their difference promises little.
    """

    first: Run
    second: Run

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
        names = [policy_label(run.task.policy) for run in self]
        if float(regret.high) < -rounding:
            return f"{names[0]} ahead, as in the paper"
        return f"{names[1]} ahead, against the paper" if float(regret.low) > rounding else "no difference beyond chance"

    @property
    def sentence(self) -> str:
        """The differences, their intervals and the verdict."""
        regret, payoff = (shared.mean_text(self.difference(quantity)) for quantity in ("regret", "payoff"))
        return f"regret {self.pair} = {regret}: {self.verdict} (payoff difference {payoff})"


def _claims(report: Report) -> list[_Claim]:
    return [
        _Claim(*(report.find(set_name, policy, radii) for policy in DATASETS[set_name].policies))
        for set_name in report.sets
        for radii in RADII
    ]


def _figure(report: Report, quantity: str, spread: str) -> Figure:
    """Literal radii above, tuned ones below, one column per data set."""
    rows = []
    for radii in RADII:
        panels = []
        for set_name, task in report.sets.items():
            curves = [
                Curve(run.task.policy, run.radius_scale, run.rounds, run.curve(quantity), bold=run.in_pair)
                for run in report.runs
                if run.task.place == set_name and run.radii == radii
            ]
            best = task.bandit.best_mean if quantity == "payoff" else None
            panels.append(Panel(_title(task), curves, reference=best, reference_label="best arm"))
        rows.append((f"{radii} radii", panels))
    what = {"payoff": "cumulative payoff", "regret": "cumulative pseudo-regret"}[quantity]
    shown = {
        "sd": "Bars: one standard deviation",
        "interval": "Bands: 95% interval of the mean (Student t), clipped at 0: regret cannot be negative",
    }[spread]
    note = (
        f"Bold: the pair the paper ran on the set. {shown}. Coloured dashes: the curve lies on another one. "
        "Literal: every radius as published (×1). Tuned: times the scale with the least mean regret on the same "
        f"instance under other noise ({report.tuning_seeds} other seeds), one grid for all."
    )
    setting = report.setting.replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")
    return panel_figure(
        rows,
        quantity=what,
        spread=spread,
        nonnegative=quantity == "regret",
        title=report.marked(f"{what.capitalize()}, mean over {setting}"),
        note=note,
    )


def _tuning_picture(report: Report) -> Figure:
    """What the scales were chosen on."""
    note = (
        f"Mean final regret over {report.tuning_seeds} tuning seeds, which the evaluation never uses, with 95% "
        "intervals (Student t, clipped at 0). Diamonds: the scale of the least mean; edge: it is the first or the "
        "last of the grid, and a wider one might hold a better scale."
    )
    title = report.marked("Tuning: regret against radius_scale")
    return tuning_figure(report.tuning, title=title, note=note)


def _curves(report: Report) -> str:
    """CSV of the curves: one line per set, policy, radii and record."""
    quantities, columns = ("regret", "payoff"), ("mean", "sd", "low", "high")
    header = ["set", "policy", "radii", "radius_scale", "horizon", "paper_horizon", "pull", "seeds", "unhealthy"]
    rows: list[list[object]] = []
    for run in report.runs:
        summaries = [run.curve(quantity) for quantity in quantities]
        fixed = [run.task.place, run.task.policy, run.radii, f"{run.radius_scale:g}", int(run.rounds[-1])]
        fixed.append("no" if report.quick_look else "yes")
        for index, pull in enumerate(run.rounds):
            numbers = [float(getattr(s, column)[index]) for s in summaries for column in columns]
            rows.append([*fixed, int(pull), summaries[0].n, summaries[0].unhealthy, *numbers])
    return csv_text([*header, *(f"{quantity}_{column}" for quantity in quantities for column in columns)], rows)


def _markdown(report: Report) -> str:
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
    for set_name, task in report.sets.items():
        rows = [_table_row(run) for run in report.runs if run.task.place == set_name]
        lines += [f"## {_title(task)}, T={task.horizon}", "", *markdown_table([*header, "unhealthy"], rows)]
    lines += ["## The paper's claim: its own policy earns more", ""]
    lines += [
        "First minus second at the horizon, seed by seed under common random numbers, with 95% intervals. The reading",
        "rests on pseudo-regret (less is better), the expected cost of the arms played. Realised payoffs add noise, of",
        "infinite variance under Pareto(2), so their interval promises little there.",
        "",
    ]
    columns = ("difference", "sd", "interval")
    header = ["set", "radii", "pair", *(f"regret {c}" for c in columns), "reading", *(f"payoff {c}" for c in columns)]
    rows = []
    for claim in _claims(report):
        regret, payoff = claim.difference("regret"), claim.difference("payoff")
        names = [claim.first.task.place, claim.first.radii, claim.pair]
        rows.append([*names, *_spelled(regret), claim.verdict, *_spelled(payoff), str(regret.n)])
    lines += markdown_table([*header, "seeds"], rows)
    lines += ["## Tuning: mean final regret by radius_scale", ""]
    rows = [_tuning_row(curve) for curve in report.tuning]
    lines += markdown_table(["set", "policy", *(f"×{scale:g}" for scale in GRID), "unhealthy"], rows)
    if report.notes:
        lines += ["## Notes", "", *(f"- {note}" for note in report.notes), ""]
    return "\n".join(lines)


def _table_row(run: Run) -> list[str]:
    name, cells = policy_label(run.task.policy), []
    for summary in (run.final("payoff"), run.final("regret")):
        cells += [number(summary.mean), number(summary.median), number(summary.sd), interval(summary)]
    unhealthy = f"{np.count_nonzero(run.health)} of {run.health.size}"
    return [f"**{name}**" if run.in_pair else name, run.radii, f"{run.radius_scale:g}", *cells, unhealthy]


def _tuning_row(curve: TuningCurve) -> list[str]:
    means = [(scale, number(s.mean)) for scale, s in zip(curve.grid, curve.summaries, strict=True)]
    cells = [f"**{mean}**" if scale == curve.chosen else mean for scale, mean in means]
    return [curve.bandit, policy_label(curve.policy), *cells, str(np.count_nonzero(curve.health))]


def _spelled(summary: Summary) -> tuple[str, str, str]:
    """Mean, standard deviation and interval, one table cell each."""
    return number(summary.mean), number(summary.sd), interval(summary)
