"""What wrong knowledge costs: regret against the ratio of the assumed to the true b, c and epsilon.

Nobody knows a law's moments in practice. Each policy is told one wrong number at a time, through the arguments of
`make_policy`, and plays with its radii as published and with one scale that was tuned while it knew the truth. A wrong
epsilon comes with the moment bound that is right for the true one.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from linbet_jax.bandits.datasets import DATASETS
from linbet_jax.experiments import shared
from linbet_jax.experiments.driver import CellResult, Experiment, Outputs, Progress, long_form
from linbet_jax.experiments.shared import HEAVY_TAILED, Sample, Task
from linbet_jax.figures.plotting import COLORS, Chart, chart_figure
from linbet_jax.policies import registry
from linbet_jax.policies.policy import Policy
from linbet_jax.statistics.regret import Summary
from linbet_jax.statistics.tables import aligned_table, grouped, number
from linbet_jax.statistics.tuning import GRID, TUNING

MOMENT_RATIOS = (0.1, 0.2, 0.5, 2.0, 5.0, 10.0)
EPSILON_RATIOS = (0.1, 0.2, 0.5, 1.5, 2.0, 5.0, 10.0)  # those with epsilon <= 1 are played
SETS, SEEDS, TUNING_SEEDS = ("S1", "S3"), 48, 10
FULL_SETS, FULL_SEEDS, FULL_TUNING_SEEDS = tuple(DATASETS), 256, 50
SEED = 7  # of the experiment's key
RADII = ("literal", "tuned")
STYLES = {"literal": {"line": "-", "marker": "o"}, "tuned": {"line": "--", "marker": "."}}
SYMBOLS = {"raw_moment_bound": "b", "central_moment_bound": "c", "epsilon": "ε"}
KNOWLEDGE = ("b (TOFU, CRT) or c (MENU, MoM)", "ε")  # what is told wrong, in the order of `fields`


class Assumption(NamedTuple):
    """What a policy is told: `field` is the true number times `ratio`."""

    field: str
    ratio: float

    def told_to(self, task: Task) -> Task:
        """The task of a policy that believes it."""
        return dataclasses.replace(task, options={self.field: getattr(task.bandit, self.field) * self.ratio})


def fields(policy: str) -> tuple[str, str]:
    """What is told wrong: the policy's moment bound, and epsilon."""
    return str(registry.entry(policy).moment), "epsilon"


def assumptions(task: Task) -> list[Assumption]:
    """The truth first, then one wrong number at a time; epsilon never beyond 1."""
    moment, epsilon = fields(task.policy)
    wrong = [Assumption(moment, ratio) for ratio in MOMENT_RATIOS]
    allowed = [ratio for ratio in EPSILON_RATIOS if ratio * task.bandit.epsilon <= 1]
    return [Assumption(epsilon, 1.0), *wrong, *(Assumption(epsilon, ratio) for ratio in allowed)]


def plan(*, seeds: int | None, full: bool, dtype: str, horizon: int | None = None) -> Experiment:
    """S1 and S3 with 48 seeds; with `full` all four with 256, and more for tuning. The usual horizon is the paper's."""
    asked: dict[str, Any] = {"seeds": seeds or (FULL_SEEDS if full else SEEDS), "dtype": dtype}
    tuning_seeds = FULL_TUNING_SEEDS if full else TUNING_SEEDS
    tasks = [
        Task.on(name, policy, horizon=horizon, scales=GRID, key=SEED, **asked)
        for name in (FULL_SETS if full else SETS)
        for policy in HEAVY_TAILED
    ]
    cells, tuning = [], {"tuning_seeds": tuning_seeds, "tuning_fold": TUNING}
    for task in tasks:
        assumed = assumptions(task)
        for assumption in assumed:
            assumption.told_to(task).made()
        replications = len(GRID) * tuning_seeds + len(RADII) * len(assumed) * task.seeds
        identity: dict[str, Any] = {"assumptions": [list(assumption) for assumption in assumed], **tuning}
        cells.append(task.cell(functools.partial(_compute, tuning_seeds), replications=replications, **identity))
    config = {**asked, "tuning_seeds": tuning_seeds, "full": full, "cells": [cell.identity for cell in cells]}

    def show(results: Mapping[str, CellResult]) -> Outputs:
        samples = [sample for task in tasks for sample in _samples(task, results[task.title])]
        tuning = np.concatenate([result.where("tuning", 1).columns["health"] for result in results.values()])
        return _outputs(samples, shared.notes_in(results), tuning_seeds, int(np.count_nonzero(tuning)))

    return Experiment("robustness", config, dtype, cells, (*shared.CODE, _compute), show)


def _compute(tuning_seeds: int, task: Task, progress: Progress) -> CellResult:
    """The scale that is best for the truth, then every assumption with scale 1 and with that one.

    All assumptions that share a program play in one batch: all but those of MoM's epsilon.
    """
    assumed = assumptions(task)
    tuning, chosen = assumed[0].told_to(task).tuned(tuning_seeds, progress)
    task = dataclasses.replace(task, scales=(1.0, chosen))
    batches: dict[Policy, list[tuple[int, int, Any]]] = {}
    for place, assumption in enumerate(assumed):
        policy, grid = assumption.told_to(task).made()
        batches.setdefault(policy, []).extend((which, place, params) for which, params in enumerate(grid))
    shape = (len(RADII), len(assumed), task.seeds)
    regret, health, notes = np.zeros(shape), np.zeros(shape, np.int64), set[str]()
    for policy, batch in batches.items():
        results = task.play(progress, (policy, [params for *_, params in batch]))
        for (which, place, _), result in zip(batch, results, strict=True):
            regret[which, place], health[which, place] = result.regret[:, -1], result.health
            notes.update(result.notes)
    columns = shared.two_stages(
        long_form(
            {"radius_scale": GRID, "assumption": [0], "seed": range(tuning_seeds)},
            {name: values[:, None] for name, values in shared.finals(tuning).items()},
        ),
        # The literal scale and the chosen one may be equal: the rows of both are there, one after the other.
        long_form(
            {"radius_scale": task.scales, "assumption": range(len(assumed)), "seed": range(task.seeds)},
            {"regret": regret, "health": health},
        ),
    )
    return CellResult(columns, {"chosen_radius_scale": chosen, "notes": sorted(notes)})


@dataclasses.dataclass(frozen=True)
class AssumedSample(Sample):
    """One policy on one set under an assumption, with literal or tuned radii, beside the same with the truth."""

    radii: str
    assumption: Assumption
    truth: Sample

    @property
    def ratio(self) -> float:
        """Of what is assumed to the truth."""
        return self.assumption.ratio

    @property
    def curve(self) -> tuple[str, str, str]:
        """(set, policy, radii)."""
        return self.task.place, self.task.policy, self.radii

    @property
    def cost(self) -> Summary:
        """Regret minus that with the truth."""
        return self.minus(self.truth)

    @property
    def cost_text(self) -> str:
        """What the wrong number costs; negative where it helps."""
        return "–" if self.ratio == 1.0 else shared.mean_text(self.cost)


def _samples(task: Task, result: CellResult) -> list[AssumedSample]:
    """Every assumption with the literal radii, then with the tuned ones."""
    assumed = assumptions(task)
    columns = result.where("tuning", 0).shaped(len(RADII), len(assumed), task.seeds)
    scales = (1.0, result.facts["chosen_radius_scale"])
    samples = []
    for scale, radii, regret, health in zip(scales, RADII, columns["regret"], columns["health"], strict=True):
        truth = Sample(task, scale, regret[0], health[0])
        for assumption, values, words in zip(assumed, regret, health, strict=True):
            samples.append(AssumedSample(task, scale, values, words, radii, assumption, truth))
    return samples


def _of_knowledge(samples: Sequence[AssumedSample], index: int) -> list[AssumedSample]:
    """Those that know the truth or something wrong of this kind, in the order of their curves and ratios."""
    shown = [s for s in samples if s.ratio == 1.0 or s.assumption.field == fields(s.task.policy)[index]]
    curves = grouped(shown, lambda sample: sample.curve).values()
    return [sample for curve in curves for sample in sorted(curve, key=lambda sample: sample.ratio)]


def _outputs(samples: Sequence[AssumedSample], notes: Sequence[str], tuning_seeds: int, ill_tuning: int) -> Outputs:
    setting, unhealthy = samples[0].task.setting, sum(sample.unhealthy for sample in samples)
    title, legend = f"What wrong knowledge costs ({setting})", LEGEND.format(tuning_seeds=tuning_seeds)

    header = ["set", "policy", "known", "regret, truth", "least ratio", "costs", "largest ratio", "costs"]
    text = [f"Mean regret under wrong knowledge ({setting})", aligned_table(header, _extremes(samples), left=3)]
    text += ["", legend, *shared.unhealthy_line(unhealthy)]

    markdown = [f"# {title}", "", legend, ""]
    for index, name in enumerate(KNOWLEDGE):
        shown = _of_knowledge(samples, index)
        ratios = sorted({sample.ratio for sample in shown})
        header = ["set", "policy", "true value", *(f"×{ratio:g}" for ratio in ratios)]
        rows = functools.partial(shared.wide_rows, shown, functools.partial(_names, index), columns=ratios)
        means = rows(lambda sample: sample.ratio, lambda sample: shared.mean_text(sample.summary))
        markdown += shared.section(f"{name} times a ratio: mean regret", header, means)
        costs = rows(lambda sample: sample.ratio, lambda sample: sample.cost_text)
        markdown += shared.section(f"{name} times a ratio: what it costs", header, costs)
    markdown += shared.notes_section([*notes, *_edge_notes(samples)], unhealthy)

    figure = chart_figure(_charts(samples), title=title, note=NOTE.format(tuning_seeds=tuning_seeds))
    records = shared.csv_of([_record(sample) for sample in samples])
    documents = {"robustness.md": "\n".join(markdown), "robustness.csv": records}
    return Outputs("\n".join(text), {"robustness": figure}, documents, ill_tuning + unhealthy)


LEGEND = (
    "Costs: regret minus that with the true number, seed by seed on the same noise, with a 95% interval (Student "
    "t). A policy labelled ×s plays with every radius times s, chosen once, with the true numbers, on "
    "{tuning_seeds} other seeds. A wrong ε comes with the moment bound of the true ε; ε is 1 at most."
)
NOTE = (
    "Mean final pseudo-regret, with 95% intervals (Student t), against the ratio of the number that the policy is "
    "told to the true one. Solid: radii as published. Dashed: radii times the scale named at the curve, tuned with "
    "the true numbers on {tuning_seeds} other seeds."
)


def _names(index: int, sample: AssumedSample) -> tuple[str, str, str]:
    """Set, policy and the true number."""
    field = fields(sample.task.policy)[index]
    return sample.task.place, sample.label, f"{SYMBOLS[field]} = {getattr(sample.task.bandit, field):.4g}"


def _extremes(samples: Sequence[AssumedSample]) -> list[list[str]]:
    """For every curve, the regret with the truth, and what the smallest and the largest ratio cost."""
    curves = [grouped(_of_knowledge(samples, index), lambda s: s.curve).values() for index in range(2)]
    rows = []
    for both in zip(*curves, strict=True):
        for index, curve in enumerate(both):
            place, label, known = _names(index, curve[0])
            row = [place, label, known.split()[0], number(curve[0].truth.summary.mean)]
            rows.append(row + [text for s in (curve[0], curve[-1]) for text in (f"×{s.ratio:g}", s.cost_text)])
    return rows


def _edge_notes(samples: Sequence[AssumedSample]) -> list[str]:
    ends = (min(GRID), max(GRID))
    tuned = [sample for sample in samples if sample.radii == "tuned" and sample.radius_scale in ends]
    edges = sorted({f"{sample.label} on {sample.task.place}" for sample in tuned})
    note = f"The tuned scale is an end of the grid, and a wider one might hold a better: {', '.join(edges)}"
    return [note] if edges else []


def _charts(samples: Sequence[AssumedSample]) -> list[list[Chart]]:
    """A row for each kind of knowledge, a column for each set."""

    def chart(name: str, of_chart: Sequence[AssumedSample]) -> Chart:
        series = [
            shared.mean_series(
                curve[0].label,
                COLORS[curve[0].task.policy],
                [sample.ratio for sample in curve],
                [sample.summary for sample in curve],
                floor=0.0,
                **STYLES[curve[0].radii],
            )
            for curve in grouped(of_chart, lambda sample: sample.curve).values()
        ]
        task = of_chart[0].task
        title = f"{task.place}: {task.bandit.noise.name}, T={task.horizon:,}"
        return Chart(title, f"assumed / true {name}", "mean regret", series, (True, False))

    rows = []
    for index, name in enumerate(KNOWLEDGE):
        sets = grouped(_of_knowledge(samples, index), lambda sample: sample.task.place)
        rows.append([chart(name, of_set) for of_set in sets.values()])
    return rows


def _record(sample: AssumedSample) -> dict[str, object]:
    (field, ratio), summary = sample.assumption, sample.summary
    played = dict(zip(("set", "policy", "radii"), sample.curve, strict=True))
    assumed = {"field": field, "ratio": ratio, "assumed": getattr(sample.task.bandit, field) * ratio}
    return {
        **played,
        "radius_scale": sample.radius_scale,
        **assumed,
        "seeds": summary.n,
        "unhealthy": summary.unhealthy,
        **shared.statistics_of("regret_", summary, "mean", "sd", "low", "high"),
        **shared.statistics_of("cost_", sample.cost, "mean", "low", "high"),
    }
