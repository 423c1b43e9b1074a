"""What the experiments have in common: a policy's task, the sample it gives, and how samples are shown."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from linbet_jax.bandits.bandit import LinearBandit
from linbet_jax.bandits.datasets import DATASETS, dataset
from linbet_jax.errors import InputError
from linbet_jax.experiments.driver import COMPILE_SECONDS, CellResult, Progress, StudyCell, long_form
from linbet_jax.figures.plotting import Series, policy_label
from linbet_jax.noise import PayoffLaw
from linbet_jax.policies import make_policy
from linbet_jax.policies.policy import Policy
from linbet_jax.policies.registry import pull_microseconds
from linbet_jax.simulation.results import Result
from linbet_jax.simulation.simulator import simulate_grid
from linbet_jax.statistics.intervals import Estimate
from linbet_jax.statistics.regret import Summary, exponent_interval, paired_difference, summarize
from linbet_jax.statistics.tables import csv_text, grouped, interval, markdown_table, number
from linbet_jax.statistics.tuning import choose_scale, tuning_key
from linbet_jax.storage import provenance

HEAVY_TAILED = ("menu", "mom", "tofu", "crt")  # they are told a moment bound
POLICIES = (*HEAVY_TAILED, "oful")  # those with a confidence region

T = TypeVar("T")


# What is played ------------------------------------------------------------------------------------------------------


def under(set_name: str, noise: PayoffLaw, epsilon: float | None, name: str) -> LinearBandit:
    """A data set's arms and theta* under another payoff law."""
    original = dataset(set_name)
    assert original.arms is not None
    assert original.theta_star is not None
    return LinearBandit(original.arms, original.theta_star, noise, epsilon=epsilon, name=name)


@dataclasses.dataclass(frozen=True)
class Task:
    """One policy with its options on one bandit at one horizon, with several radius scales."""

    place: str  # what is played, as titles write it
    bandit: LinearBandit  # what is played
    instance: str  # hash of it
    policy: str  # registry name
    horizon: int  # T, pulls
    seeds: int  # replications of each scale
    scales: tuple[float, ...]  # radius_scale
    key: int  # the number of the random key
    dtype: str  # "float64" or "float32"
    delta: float  # failure probability
    ridge: float  # lambda
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # more of `make_policy`

    @classmethod
    def on(cls, set_name: str, policy: str, *, horizon: int | None = None, **more: Any) -> Task:
        """A task on a data set, with its delta and ridge and, unless another one is given, the paper's horizon."""
        spec, bandit = DATASETS[set_name], dataset(set_name)
        constants: dict[str, Any] = {"delta": spec.delta, "ridge": spec.ridge, "horizon": horizon or spec.horizon}
        return cls(set_name, bandit, provenance.instance_digest(bandit), policy, **constants, **more)

    @property
    def title(self) -> str:
        """A name."""
        return f"{self.place}/{self.policy}"

    @property
    def label(self) -> str:
        """The policy, as tables write it."""
        return policy_label(self.policy)

    @property
    def described(self) -> str:
        """What is played, with its law and size."""
        return f"{self.place}: {self.bandit.noise.name}, K={self.bandit.num_arms}, d={self.bandit.dim}"

    @property
    def setting(self) -> str:
        """Seeds and constants, for headings."""
        seeds = f"{self.seeds} seed{'s' * (self.seeds != 1)}"
        return f"{seeds}, λ = {self.ridge:g}, δ = {self.delta:g}"

    @property
    def identity(self) -> dict[str, Any]:
        """JSON-like, everything that decides its numbers beside versions, code and device."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "bandit"}
        return {**fields, "scales": list(self.scales), "options": dict(self.options)}

    @property
    def tunable(self) -> bool:
        """Whether its policy has a radius to scale."""
        return hasattr(self.made()[1][0], "radius_scale")

    @property
    def replications(self) -> int:
        """Of all scales."""
        return self.seeds * len(self.scales)

    @property
    def pulls(self) -> int:
        """Over all replications."""
        return self.horizon * self.replications

    @property
    def core_seconds(self) -> float:
        """Estimate of the CPU time, without tracing and compiling, which takes `COMPILE_SECONDS` a program."""
        passes = self.horizon if self.options.get("method") == "full" else self.options.get("epochs", 0)
        bandit = self.bandit
        pull = pull_microseconds(self.policy, num_arms=bandit.num_arms, dim=bandit.dim, passes=passes)
        return 1e-6 * self.pulls * pull

    def made(self) -> tuple[Policy, list[Any]]:
        """The policy, and its parameters for each scale.

        Raises:
            InputError: what the policy's own checks say, a horizon that is too short, say.
        """
        constants: dict[str, Any] = {"horizon": self.horizon, "delta": self.delta, "ridge": self.ridge}
        try:
            policy, params = make_policy(self.policy, self.bandit, **constants, **self.options)
        except ValueError as error:
            raise InputError(f"{self.policy} on {self.place}: {error}") from error
        # What has no radius (uniform play) has the scale 1 alone.
        return policy, [params if scale == 1.0 else params._replace(radius_scale=scale) for scale in self.scales]

    def cell(
        self,
        compute: Callable[[Task, Progress], CellResult] | None = None,
        *,
        title: str = "",
        replications: int | None = None,
        programs: int = 1,
        **identity: Any,
    ) -> StudyCell:
        """Its piece of work, which `compute` does, by default `final_regret`.

        It plays so many replications of T pulls and compiles so many programs; `identity` is JSON-like, what decides
        the numbers beside the task's own fields.
        """
        count = self.replications if replications is None else replications
        return StudyCell(
            title or self.title,
            {**self.identity, **identity},
            self.horizon * count,
            programs * COMPILE_SECONDS + self.core_seconds * count / self.replications,
            functools.partial(compute or final_regret, self),
        )

    def play(
        self, progress: Progress | None, made: tuple[Policy, Sequence[Any]] | None = None, **more: Any
    ) -> list[Result]:
        """All scales as one batch, or a policy and parameters of one's own, recorded at the horizon.

        What is said of it in `more` is passed on to `simulate_grid`.
        """
        policy, grid = made or self.made()
        usual = {"horizon": self.horizon, "num_seeds": self.seeds, "num_records": 1, "key": jax.random.key(self.key)}
        settings: dict[str, Any] = {**usual, **more}
        advance = None if progress is None else progress.of(settings["horizon"])
        return simulate_grid(policy, grid, self.bandit, dtype=np.dtype(self.dtype), progress=advance, **settings)

    def tuned(self, seeds: int, progress: Progress, **more: Any) -> tuple[list[Result], float]:
        """The task's scales on so many tuning seeds, which `play` never meets by itself, and the best of them."""
        results = self.play(progress, num_seeds=seeds, key=tuning_key(jax.random.key(self.key)), **more)
        final = finals(results)
        return results, choose_scale(final["regret"], final["health"], self.scales)

    def samples(self, result: CellResult) -> list[Sample]:
        """One for each scale, from what `final_regret` returns."""
        columns = result.shaped(len(self.scales), self.seeds)
        return [Sample(self, *row) for row in zip(self.scales, columns["regret"], columns["health"], strict=True)]


def final_regret(task: Task, progress: Progress) -> CellResult:
    """Final regret and health of every scale and seed."""
    results = task.play(progress)
    columns = long_form({"radius_scale": task.scales, "seed": range(task.seeds)}, finals(results))
    return CellResult(columns, {"notes": notes_of(results)})


def two_stages(tuning: Mapping[str, NDArray[Any]], evaluation: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Both tables as one, with a column `tuning` that is 1 or 0."""
    rows = [next(iter(table.values())).size for table in (tuning, evaluation)]
    both = {name: np.concatenate([tuning[name], evaluation[name]]) for name in tuning}
    return {"tuning": np.repeat([1, 0], rows), **both}


def stacked(results: Iterable[Result], field: str) -> NDArray[np.float64]:
    """`[G, S, R]` regret or payoff of all results, recorded in float64."""
    return np.stack([np.asarray(getattr(result, field), np.float64) for result in results])


def finals(results: Sequence[Result]) -> dict[str, NDArray[Any]]:
    """Regret at the horizon and health words `[G, S]`."""
    health = np.stack([result.health for result in results])
    return {"regret": stacked(results, "regret")[..., -1], "health": health}


def notes_of(results: Iterable[Result]) -> list[str]:
    """Sentences that must travel with the numbers, each once."""
    return sorted({note for result in results for note in result.notes})


CODE = (Task, final_regret, two_stages, stacked, finals, notes_of)  # what computes, for an experiment's `code`


def affordable(
    tasks: Iterable[Task], cell: Callable[[Task], StudyCell], longest: float
) -> tuple[list[Task], list[StudyCell], list[str]]:
    """The tasks that can be played in so many seconds of a core each, their cells, and why others are not played."""
    kept, cells, refused = [], [], []
    for task in tasks:
        try:
            task.made()
        except InputError as error:
            refused.append(f"{task.label} does not play {task.place}: {str(error).split(': ', 1)[1]}")
            continue
        made = cell(task)
        if made.core_seconds <= longest:
            kept.append(task)
            cells.append(made)
        else:
            seconds = f"{made.core_seconds:.0f} s"
            refused.append(f"{task.label} on {task.place} would take {seconds} of a core: --full plays it")
    return kept, cells, refused


def config_of(tasks: Iterable[Task], /, **asked: Any) -> dict[str, Any]:
    """An experiment's configuration: what was asked for, and the hash of every instance."""
    return {**asked, "instances": {task.place: task.instance for task in tasks}}


def notes_in(results: Mapping[str, CellResult]) -> list[str]:
    """The notes of all cells, each once."""
    return sorted({note for result in results.values() for note in result.facts["notes"]})


# What it gives -------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Sample:
    """What a task gave with one of its scales: final regret and health words `[S]`."""

    task: Task
    radius_scale: float
    regret: NDArray[np.float64]
    health: NDArray[np.int64]

    @functools.cached_property
    def summary(self) -> Summary:
        """Over the healthy seeds."""
        return summarize(self.regret, self.health)

    @property
    def label(self) -> str:
        """Policy and scale."""
        return policy_label(self.task.policy, self.radius_scale)

    @property
    def unhealthy(self) -> int:
        """Replications that met something non-finite."""
        return int(np.count_nonzero(self.health))

    def minus(self, other: Sample) -> Summary:
        """The difference of final regret, seed by seed on the same noise."""
        return paired_difference(self.regret, other.regret, self.health, other.health)


def wide_rows(
    items: Iterable[T],
    row: Callable[[T], tuple[str, ...]],
    column: Callable[[T], Hashable],
    text: Callable[[T], str],
    columns: Iterable[Hashable],
) -> list[list[str]]:
    """Rows of a table with a column for each of some values; a dash where there is no item.

    An item stands in the row that begins with the names `row`, in the column of the value `column`, as `text`.
    """
    columns, rows = list(columns), []
    for names, of_row in grouped(items, row).items():
        cells = {column(item): text(item) for item in of_row}
        rows.append([*names, *(cells.get(value, "–") for value in columns)])
    return rows


def exponent(samples: Sequence[Sample]) -> Estimate:
    """Slope of the log mean regret on the log horizon, with a percentile bootstrap interval over seeds.

    The samples are of the same seeds at two horizons at least; a seed that is unhealthy at any is left out. The slope
    is NaN where it does not exist: no seed is healthy, or a mean of 0 has no logarithm.
    """
    values = np.stack([sample.regret for sample in samples], axis=1)
    ill = np.any([sample.health != 0 for sample in samples], axis=0)
    healthy, seeds = values[~ill], values.shape[0]
    if healthy.shape[0] == 0 or np.any(healthy.mean(axis=0) <= 0):
        none = np.asarray(np.nan)
        return Estimate(none, none, none, none, healthy.shape[0], seeds, seeds - healthy.shape[0], 0.95, "percentile")
    return exponent_interval([sample.task.horizon for sample in samples], values, ill)


# How it is shown -----------------------------------------------------------------------------------------------------


def mean_series(
    label: str, color: str, x: ArrayLike, summaries: Sequence[Summary], *, floor: float = -np.inf, **style: Any
) -> Series:
    """A curve of means `[n]` with their intervals, where there are any; none goes below the floor.

    The other arguments are those of a `Series`.
    """
    mean, low, high = ([float(getattr(s, field)) for s in summaries] for field in ("mean", "low", "high"))
    if summaries[0].has_band:
        style |= {"low": np.maximum(low, floor), "high": high}
    return Series(label, color, x, mean, **style)


def mean_text(summary: Summary) -> str:
    """A mean with its interval, where there is one."""
    return f"{number(summary.mean)} {interval(summary)}" if summary.has_band else number(summary.mean)


def statistics_of(prefix: str, summary: Summary | Estimate, *names: str) -> dict[str, float]:
    """Statistics by their names, which the prefix begins: columns of a CSV record."""
    return {f"{prefix}{name}": float(getattr(summary, name)) for name in names}


def unbroken(title: str) -> str:
    """A figure's title whose lines never break at an equals sign."""
    return title.replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")


def csv_of(records: Sequence[Mapping[str, object]]) -> str:
    """CSV of records that have the same columns in the same order."""
    return csv_text(list(records[0]), [list(record.values()) for record in records])


def section(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a Markdown section that is a table."""
    return [f"## {title}", "", *markdown_table(header, rows)]


def listed(title: str, sentences: Iterable[str]) -> list[str]:
    """Lines of a Markdown section that is a list; none where there is nothing to say."""
    said = [f"- {sentence}" for sentence in sentences]
    return [f"## {title}", "", *said, ""] if said else []


def unhealthy_line(unhealthy: int, statistic: str = "mean") -> list[str]:
    """The last line of a terminal's table, where there is something to say."""
    return [f"UNHEALTHY replications, left out of every {statistic}: {unhealthy}"] if unhealthy else []


def notes_section(notes: Sequence[str], unhealthy: int, statistic: str = "mean") -> list[str]:
    """Lines of a Markdown section; none where there is nothing to say."""
    ill = f"{unhealthy} replications met something non-finite and are left out of every {statistic}"
    return listed("Notes", [f"{note}." for note in ([*notes, ill] if unhealthy else notes)])
