"""What a benchmark run measures: kernels, every policy on every data set, and the comparisons of the table."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import c_baseline
import jax
import kernels
import scaling
from baseline import Baseline
from c_baseline import CBaseline
from floors import BLOCK, floor
from problems import Problem
from timing import Clock, Measurement, interleave, ratio
from worker import Worker

from linbet_jax import policies
from linbet_jax.bandits.datasets import DATASETS

__all__ = ["Plan", "run"]

# The rows of the table that have a NumPy counterpart: policy, data set, pulls.
ROWS = (
    ("tofu", "S3", 10_000),
    ("tofu", "S4", 10_000),
    ("tofu", "S3", 100_000),
    ("tofu", "S4", 100_000),
    ("menu", "S1", 20_000),
    ("mom", "S1", 20_000),
    ("crt", "S3", 10_000),
    ("crt", "S4", 10_000),
    ("oful", "S3", 10_000),
    ("oful", "S4", 10_000),
    ("hvt_ucb", "S3", 10_000),
    ("crtm", "S3", 10_000),
    ("lints", "S3", 10_000),
    ("sgd", "S3", 10_000),
    ("heavy_oful", "S3", 10_000),
    ("gopt_elim", "S3", 10_000),
    ("explore_then_commit", "S3", 10_000),
    ("sup_bmm", "S3", 10_000),
    ("sup_btc", "S3", 10_000),
    ("oful", "S1", 20_000),  # beside it, medians: S3's noise is not symmetric
    ("crmm", "S1", 20_000),
    ("mean_of_medians", "S1", 20_000),
)
QUICK_ROWS = (("tofu", "S3", 2_000), ("menu", "S1", 2_000), ("mom", "S1", 2_000), ("crt", "S3", 2_000))
SMOKE_ROWS = (("mom", "S1", 600), ("crt", "S3", 600))
FLOORS = (("crt", "S3"), ("crt", "S4"), ("oful", "S3"), ("oful", "S4"), ("tofu", "S3"), ("tofu", "S4"))
SAMPLED_FROM = 50_000  # longer full-pass runs of the NumPy baseline are integrated from sampled rounds
SAMPLED_AT = (0.0, 0.01, 0.05, 0.2, 0.5, 0.75, 0.999)  # of the horizon

Say = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Plan:
    """How much is measured.

    Attributes:
        parts: some of "kernels", "policies", "table".
        cores: those of the machine that may be used; what is compared has one.
        quick: a coarse look in less than a minute.
        smoke: with ``quick``, only to see that it works.
        scaling: also how time grows with T, seeds, K, d and cores.
    """

    parts: tuple[str, ...]
    cores: tuple[int, ...]
    quick: bool = False
    smoke: bool = False
    scaling: bool = False

    @property
    def rows(self) -> tuple[tuple[str, str, int], ...]:
        """Policy, data set and pulls of the table's rows."""
        if "table" not in self.parts:
            return ()
        return SMOKE_ROWS if self.smoke else QUICK_ROWS if self.quick else ROWS

    @property
    def repeats(self) -> int:
        """Samples of everything that is timed."""
        return 1 if self.smoke else 3 if self.quick else 5


def run(plan: Plan, baseline: Baseline, loops: CBaseline | None, say: Say) -> Iterator[Measurement]:
    """Measures, one result after the other.

    Args:
        plan: what, and how much of it.
        baseline: the NumPy one.
        loops: the C one; None where there is no compiler.
        say: is told what is measured.

    Raises:
        MismatchError: a baseline plays other arms than linbet_jax.
    """
    if "kernels" in plan.parts:
        say("kernels")
        yield from kernels.measure(baseline, repeats=plan.repeats, dims=(10,) if plan.quick else (10, 20))
    costs: dict[tuple[str, str, int], Measurement] = {}
    for policy, data_set, horizon in plan.rows:
        for measurement in _compared(Problem.of(policy, data_set, horizon), baseline, loops, plan, say):
            if measurement.name.endswith("/cpu") and measurement.name.startswith("policy/"):
                costs[policy, data_set, horizon] = measurement
            yield measurement
    if "policies" in plan.parts:
        yield from _every_policy(plan, set(plan.rows), say)
    if "table" in plan.parts:
        yield from _floors(costs, say)
        if not plan.smoke:
            yield from _processes(plan, say)
    if plan.scaling:
        yield from scaling.measure(baseline, plan.cores, quick=plan.quick, say=say)


def _one_core() -> dict[str, Any]:
    """Options of runs on one core, as the baselines' are."""
    return {"devices": jax.local_devices()[:1]}


def _costs(name: str, clocks: Sequence[Clock], unit: str, note: str = "") -> Iterator[Measurement]:
    yield Measurement(f"{name}/cpu", f"CPU us per {unit}", tuple(1e6 * clock.cpu for clock in clocks), note)
    yield Measurement(f"{name}/wall", f"wall us per {unit}", tuple(1e6 * clock.wall for clock in clocks), note)


def _compared(
    problem: Problem, baseline: Baseline, loops: CBaseline | None, plan: Plan, say: Say
) -> Iterator[Measurement]:
    """Ours, NumPy's and C's runs of one problem in turn, once theirs are known to play the same arms."""
    say(f"{problem.name} against NumPy and C")
    long = problem.horizon > SAMPLED_FROM
    seeds = BLOCK * (1 if long or plan.quick else 2)
    compiled = problem.warm(**_one_core())
    subjects: dict[str, Callable[[], Clock]] = {"ours": functools.partial(problem.sample, seeds, **_one_core())}
    note = ""
    if long:
        at = [int(share * problem.horizon) + 1 for share in SAMPLED_AT]
        subjects["numpy"] = functools.partial(baseline.sample_rounds, problem, at)
        baseline.sample_rounds(problem, at[:2])  # draws noise and history, which are kept
        note = (
            "NumPy's whole run integrated over t from blocks of rounds that begin at t = "
            f"{', '.join(map(str, at))}, each on the true history; their arms were checked"
        )
    else:
        baseline.check(problem)
        subjects["numpy"] = functools.partial(baseline.sample, problem)
    if loops is not None and problem.policy in c_baseline.POLICIES:
        loops.check(problem)
        subjects["c"] = functools.partial(loops.sample, problem, seeds)
        subjects["noise"] = functools.partial(loops.sample, problem, seeds, play=False)
    samples = interleave(subjects, repeats=plan.repeats, budget=40 if long else 20)
    yield from _costs(f"policy/{problem.name}", samples["ours"], "seed-pull on one core", f"{seeds} seeds")
    yield Measurement(f"policy/{problem.name}/compile", "s", (compiled,))
    yield from _costs(f"numpy/{problem.name}", samples["numpy"], "pull", note)
    ours = [clock.cpu for clock in samples["ours"]]
    cpu = ratio([clock.cpu for clock in samples["numpy"]], ours)
    yield Measurement(f"ratio/{problem.name}", "x", cpu, "CPU time per pull, NumPy over linbet_jax")
    if "c" in samples:
        yield from _costs(f"c/{problem.name}", samples["c"], "pull")
        yield from _costs(f"noise/{problem.name}", samples["noise"], "pull", "part of C's time: drawing the noise")
        cpu = ratio([clock.cpu for clock in samples["c"]], ours)
        yield Measurement(f"c-ratio/{problem.name}", "x", cpu, "CPU time per pull, C over linbet_jax")


def _every_policy(plan: Plan, done: set[tuple[str, str, int]], say: Say) -> Iterator[Measurement]:
    """Every policy on every data set at the paper's horizon; those in ``done`` were measured before."""
    for data_set, spec in DATASETS.items():
        if plan.quick and data_set != "S3":
            continue
        horizon = 2_000 if plan.quick else spec.horizon
        for policy in policies.names():
            if (policy, data_set, horizon) in done:
                continue
            try:
                problem = Problem.of(policy, data_set, horizon)
            except ValueError as refusal:  # crmm needs symmetric noise, which S3 and S4 do not have
                say(f"{policy}/{data_set} is left out: {refusal}")
                continue
            say(problem.name)
            compiled = problem.warm(**_one_core())
            subjects = {"ours": functools.partial(problem.sample, BLOCK, **_one_core())}
            samples = interleave(subjects, repeats=min(3, plan.repeats), budget=10)
            yield from _costs(f"policy/{problem.name}", samples["ours"], "seed-pull on one core", f"{BLOCK} seeds")
            yield Measurement(f"policy/{problem.name}/compile", "s", (compiled,))


def _floors(costs: dict[tuple[str, str, int], Measurement], say: Say) -> Iterator[Measurement]:
    """One pass over the state in memory beside the cost of a seed-pull."""
    for (policy, data_set, horizon), cost in costs.items():
        if (policy, data_set) not in FLOORS or horizon > SAMPLED_FROM:
            continue
        say(f"floor of {policy} on {data_set}")
        problem = Problem.of(policy, data_set, horizon)
        measured = [floor(problem) for _ in cost.values]
        name = f"floor/{policy}/{data_set}"
        passes = tuple(1e6 * one.seconds for one in measured)
        yield Measurement(f"{name}/state", "bytes", (float(measured[0].state_bytes),), "of one replication, float64")
        yield Measurement(f"{name}/pass", "us", passes, "one read and one write of the state, 16 replications a pass")
        yield Measurement(f"{name}/ratio", "x", ratio(cost.values, passes), "CPU time of a seed-pull over one pass")


def _processes(plan: Plan, say: Say) -> Iterator[Measurement]:
    """Horizons, memory and cores, each in processes of their own."""
    cores = list(plan.cores)
    name = "crt" if plan.quick else "tofu"
    short, long = (2_000, 20_000) if plan.quick else (10_000, 1_000_000)
    say(f"{name}/S3: T={long} beside T={short}, time and peak memory")
    with Worker(cores[:1]) as small, Worker(cores[:1]) as large:
        near = [small.run(name, "S3", short, 16)]
        far = large.run(name, "S3", long, 16)
        near += [small.run(name, "S3", short, 16) for _ in range(2)]  # after it, too: machines drift
    peaks = near[-1]["peak_bytes"], far["peak_bytes"]
    yield Measurement(
        f"horizon/{name}/S3/T={long}",
        "x",
        tuple(far["cpu"] / one["cpu"] for one in near),
        f"CPU time per seed-pull at T={long} over T={short}; 16 seeds on one core",
    )
    for horizon, peak in zip((short, long), peaks, strict=True):
        yield Measurement(f"memory/{name}/S3/T={horizon}", "MiB", (peak / 2**20,), "peak of the process, 16 seeds")
    yield Measurement(f"memory/{name}/S3/T={long} over T={short}", "x", (peaks[1] / peaks[0],))
    many, pulls = (1_000, 100) if plan.quick else (10_000, 1_000)
    say(f"{name}/S3: {many} seeds, peak memory")
    with Worker(cores) as worker:
        peak = worker.run(name, "S3", pulls, many)["peak_bytes"]
    note = f"peak of the process, T={pulls}, 200 records a seed; the rows above say how little T adds"
    yield Measurement(f"memory/{name}/S3/{many} seeds", "MiB", (peak / 2**20,), note)
    if len(cores) > 1:
        yield from _cores(plan, cores, say)


def _cores(plan: Plan, cores: list[int], say: Say) -> Iterator[Measurement]:
    """All cores of the process against one."""
    seeds = 16 * len(cores) * (1 if plan.quick else 2)
    horizon = 2_000 if plan.quick else 10_000
    for policy, data_set in (("crt", "S3"),) if plan.quick else (("tofu", "S3"), ("crt", "S4")):
        say(f"{policy}/{data_set}: {len(cores)} cores against one")
        with Worker(cores[:1]) as one, Worker(cores) as all_of_them:
            subjects = {
                "one": functools.partial(one.sample, policy, data_set, horizon, seeds),
                "all": functools.partial(all_of_them.sample, policy, data_set, horizon, seeds),
            }
            interleave(subjects, repeats=1)  # compiles
            samples = interleave(subjects, repeats=plan.repeats, budget=30)
        gain = ratio([clock.wall for clock in samples["one"]], [clock.wall for clock in samples["all"]])
        yield Measurement(f"cores/{policy}/{data_set}", "x", gain, f"wall time on 1 core over {len(cores)} cores")
