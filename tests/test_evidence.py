"""`linbet reproduce coverage|lower-bound|robustness`: what is played, what is written, and that it can be carried on.

The host side is tested with a stand-in for the simulator; the real one meets a policy that cheats.
"""

import csv
import itertools
import json
import re
from fractions import Fraction
from types import SimpleNamespace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from traces import compiled_quickly, programs_at_most

import linbet_jax as lb
from linbet_jax import theory
from linbet_jax.bandits.datasets import lower_bound as instances
from linbet_jax.cli import main
from linbet_jax.experiments import coverage, driver, lower_bound, shared
from linbet_jax.experiments.shared import Task
from linbet_jax.statistics import tuning

# Nearly every program runs once, and briefly.
quick_compiles = pytest.fixture(autouse=True, scope="module")(compiled_quickly)


class Simulator:
    """Stands in for `simulate_grid`: numbers that depend on what is played alone, and a log of the calls."""

    def __init__(self):
        self.calls = []
        self.fail_after = None
        self.unhealthy = False

    def __call__(self, policy, grid, bandit, *, horizon, num_seeds, key, coverage=False, progress, **known):
        if self.fail_after is not None and len(self.calls) >= self.fail_after:
            raise KeyboardInterrupt
        self.calls.append((bandit.name, policy.name, horizon, num_seeds, grid))
        results = []
        for params in grid:
            own = getattr(params, "policy", params)
            scale = getattr(own, "radius_scale", 1.0)
            seeds = np.arange(num_seeds)
            told = sum(float(getattr(own, f, 0)) for f in ("epsilon", "raw_moment_bound", "central_moment_bound"))
            health = np.where(self.unhealthy & (seeds == 1), 7, 0)
            ratio = 0.05 * (1 + seeds) / scale
            results.append(
                SimpleNamespace(
                    regret=(horizon**0.7 * (1 + 0.1 * seeds + told + abs(np.log(scale / 0.1))))[:, None],
                    health=health,
                    notes=policy.about.notes,
                    coverage=SimpleNamespace(first_miss=np.where(ratio > 1, 12, 0), worst_ratio=ratio),
                    reruns=0,
                    compile_seconds=0.0,
                    run_seconds=0.0,
                )
            )
        progress(len(grid) * num_seeds, len(grid) * num_seeds)
        return results


@pytest.fixture
def stand_in(monkeypatch):
    found = Simulator()
    for module in (shared, tuning):
        monkeypatch.setattr(module, "simulate_grid", found)
    monkeypatch.setattr(driver, "save_figure", lambda figure, path: path.write_bytes(b"drawing"))
    return found


def rows_of(path):
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


CELLS = {"coverage": 40, "lower-bound": 22, "robustness": 8}
NARROW = {"lower-bound": ["--d", "2", "--T", "100,500"], "coverage": [], "robustness": ["--horizon", "900"]}


def run(experiment, out, *more):
    return main(["reproduce", experiment, "--seeds", "4", "--out", str(out), *NARROW[experiment], *more])


@pytest.mark.parametrize("experiment", CELLS)
def test_an_interrupted_run_carries_on_and_a_finished_one_computes_nothing(stand_in, experiment, tmp_path, capsys):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert run(experiment, whole) == 0
    out, err = capsys.readouterr()
    names = [f"{experiment}{suffix}" for suffix in (".png", ".pdf", ".md", ".csv")]
    assert out.splitlines()[-5:] == [str(whole / name) for name in (*names, "manifest.json")]
    assert re.search(rf"{experiment}: .* seed-pulls in \d+ cells, about \d+ minutes? on", err)
    calls = len(stand_in.calls)
    assert run(experiment, whole, "--quiet") == 0
    assert len(stand_in.calls) == calls

    stand_in.fail_after = calls + 5
    assert run(experiment, cut) == 130
    assert not (cut / f"{experiment}.md").exists()
    stand_in.fail_after = None
    assert run(experiment, cut) == 0
    begun = 3 if experiment == "robustness" else 0  # of the cell that was cut, MoM's: its tuning, and two epsilons
    assert len(stand_in.calls) == 2 * calls + begun
    for name in names:
        assert (cut / name).read_bytes() == (whole / name).read_bytes()
    manifest = json.loads((whole / "manifest.json").read_text(encoding="utf-8"))
    assert (manifest["status"], manifest["unhealthy"], len(manifest["cells"])) == ("finished", 0, CELLS[experiment])
    capsys.readouterr()
    assert run(experiment, whole, "--dtype", "float32") == 2
    assert "holds another run" in capsys.readouterr().err


@pytest.mark.parametrize("experiment", CELLS)
def test_unhealthy_replications_are_counted_left_out_and_the_status_is_1(stand_in, experiment, tmp_path, capsys):
    stand_in.unhealthy = True
    assert run(experiment, tmp_path / "run") == 1
    assert {row["unhealthy"] for row in rows_of(tmp_path / "run" / f"{experiment}.csv")} == {"1"}
    assert re.search(r"met something non-finite", (tmp_path / "run" / f"{experiment}.md").read_text(encoding="utf-8"))
    assert "UNHEALTHY" in capsys.readouterr().out


# Coverage


def test_shares_intervals_and_where_coverage_is_lost(stand_in, tmp_path):
    assert run("coverage", tmp_path / "run", "--quiet") == 0
    rows = rows_of(tmp_path / "run" / "coverage.csv")
    assert len(rows) == 40 * 7
    assert {(name, horizon) for _, name, horizon, _, _ in stand_in.calls} == {
        (p, t) for p in coverage.POLICIES for t in (3000, 6000)
    }
    for row in rows:
        covered = sum(0.05 * (1 + seed) / float(row["radius_scale"]) <= 1 for seed in range(4))
        assert (int(row["covered"]), int(row["seeds"])) == (covered, 4)
        if covered == 4:
            assert float(row["low"]) == pytest.approx(0.025 ** (1 / 4))  # Clopper and Pearson, all of n
        else:
            assert row["first_miss_median"] == ("6" if row["play"] == "in advance" else "12")  # in the policy's pulls
    table = (tmp_path / "run" / "coverage.md").read_text(encoding="utf-8")
    # No share of four seeds lies below 0.9 beyond chance unless all miss: 0.05 s <= 1 first fails for all below 0.05.
    line = (
        "| S3: Pareto(2), ε=0.5 | TOFU | 1.000 [0.398, 1.000] | 1.000 [0.398, 1.000] | ×0.03, pull 12 | ×0.03, pull 6 |"
    )
    assert line in table


# The lower bound


@pytest.mark.parametrize(("dim", "horizon"), [(2, 1000), (6, 1000), (7, 8000)])
def test_the_law_has_the_mean_and_at_most_the_moment_exactly(dim, horizon):
    # epsilon = 1/2 and a cube of T: Delta = T^(-1/3)/12 is rational, and so is everything that Theorem 1 needs.
    pairs, root = dim // 2, round(horizon ** (1 / 3))
    delta = Fraction(1, 12 * root)
    value, probability = (1 / delta) ** 2, delta**2
    bandit = instances(dim, 0.5, horizon)
    assert bandit.noise.value == pytest.approx(float(value), rel=1e-12)
    largest = Fraction(0)
    for theta in itertools.product(((2 * delta, delta), (delta, 2 * delta)), repeat=pairs):
        for arm in itertools.product(((1, 0), (0, 1)), repeat=pairs):
            mean = sum(t * x for pair, ends in zip(theta, arm, strict=True) for t, x in zip(pair, ends, strict=True))
            chance = probability * mean
            assert chance <= 1
            assert value * chance == mean  # E y = <x, theta*>
            moment = (1 / delta) ** 3 * chance  # E y^(3/2), since y^(3/2) = Delta^-3
            largest = max(largest, moment)
            assert bandit.noise.cdf(0.0, float(mean)) == pytest.approx(float(1 - chance), rel=1e-13)
            assert bandit.noise.raw_moment(1.5, float(mean)) == pytest.approx(float(moment), rel=1e-10)
    assert largest == 2 * pairs == bandit.raw_moment_bound <= dim
    assert not bandit.arms[:, 2 * pairs :].any()  # an odd d plays its first d - 1 coordinates


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--d", "20", "--epsilon", "0.1", "--T", "100,1000"], "T=100: horizon must satisfy 276 <= horizon, got 100"),
        (["--d", "20", "--epsilon", "0.1", "--T", "275,1000"], "276 <= horizon, got 275"),
        (["--d", "3"], "dims: 3 must be even"),
        (["--d", "22"], "dim must satisfy 2 <= dim <= 21"),
        (["--T", "1000"], r"horizons=\[1000\]: an exponent needs two different ones"),
    ],
)
def test_what_the_theorem_does_not_cover_is_refused(stand_in, arguments, message, tmp_path, capsys):
    assert main(["reproduce", "lower-bound", *arguments, "--out", str(tmp_path / "run")]) == 2
    assert re.search(message, capsys.readouterr().err)
    assert not (tmp_path / "run").exists()
    assert stand_in.calls == []


def test_epsilons_that_look_alike_are_cells_of_their_own():
    known = {"seeds": 2, "full": False, "dtype": "float64", "dims": [2], "horizons": [100, 500]}
    plan = lower_bound.plan(epsilons=[0.5, 0.5 + 1e-9], **known)
    titles = {cell.title for cell in plan.cells}
    assert len(titles) == len(plan.cells) == 2 * len(lower_bound.plan(epsilons=[0.5], **known).cells)
    assert len(set(driver._identities(plan, {}).values())) == len(titles)


def test_exponents_and_ratios_stand_beside_the_theory_s(stand_in, tmp_path, capsys):
    assert run("lower-bound", tmp_path / "run", "--epsilon", "0.5", "--quiet") == 0
    rows = rows_of(tmp_path / "run" / "lower-bound.csv")
    assert len(rows) == (4 + 5) * 3 + 2  # MENU does not play T=100; uniform play has one scale
    for row in rows:
        lower = 2 / 192 * float(row["horizon"]) ** (2 / 3)
        assert float(row["lower_bound"]) == pytest.approx(lower)
        assert float(row["largest"]) == pytest.approx(8 * lower)
        assert row["below_the_bound"] == "no"
    table = (tmp_path / "run" / "lower-bound.md").read_text(encoding="utf-8")
    assert re.search(r"\| 2 \| 0.5 \| TOFU ×0.03 \| 0.700 \[0.700, 0.700\] \| 0.667 \| 0.667 \|", table)
    assert re.search(r"\| 2 \| 0.5 \| MoM \| 0.7\d\d \[.*\] \| 0.667 \| 0.800 \|", table)
    assert re.search(r"\| 2 \| 0.5 \| CRT \| 0.700 \[.*\] \| 0.667 \| 0.833 \|", table)
    assert "menu does not play T=100" in table
    assert "0.0012 at d=2, ε=0.5" in table  # 2/1728


def problems(regrets, lower=1.0):
    bandit = instances(2, 1.0, 100, resample=True)
    task = Task("d=2", bandit, "", "tofu", 100, 3, (1.0,), key=0, dtype="float64", delta=0.1, ridge=1.0)
    samples = [
        lower_bound.BoundedSample(task, 1.0, np.array(values), np.zeros(len(values), int), lower) for values in regrets
    ]
    return lower_bound.problems(samples)


def test_only_a_mean_below_the_bound_beyond_chance_is_a_bug():
    rng = np.random.default_rng(1)
    assert problems([rng.normal(0.9, 1.0, 200)]) == ()  # one and a half standard errors
    [problem] = problems([rng.normal(0.5, 1.0, 200)])  # seven of them
    assert problem.startswith("BUG: TOFU lies below Theorem 1's lower bound at d=2, ε=1, T=100: mean regret 0.")
    assert problems([[0.0, 0.0]]) != ()  # no spread at all
    assert problems([[0.5]]) == ()  # no interval from one seed
    assert problems([[1.0, 1.0]]) == ()  # at the bound
    # 3.3 standard errors are beyond 99.9% alone, but not among a hundred comparisons.
    values = 1.0 + (rng.permutation(np.repeat([-1.0, 1.0], 100)) - 3.3 / np.sqrt(200))
    assert len(problems([values])) == 1
    assert problems([values] + [[9.0, 9.0]] * 99) == ()


class Known(NamedTuple):
    """Parameters of the policy that knows theta*."""

    horizon: float
    radius_scale: float


@pytest.mark.timeout(120)
def test_a_policy_that_knows_theta_star_is_found_out(monkeypatch, tmp_path, capsys):
    # theta* is always (2D, D), and the policy plays (1, 0): what a leak of theta* would look like.
    def known(dim, epsilon, horizon, *, resample):
        fair, gap = (
            instances(dim, epsilon, horizon, resample=resample),
            theory.lower_bound_gap(horizon, epsilon=epsilon),
        )
        theta, arms = jnp.array([2 * gap, gap]), jnp.eye(2)
        facts = ("epsilon", "best_mean", "raw_moment_bound", "theta_norm", "mean_bound", "arm_norm", "name")
        return lb.LinearBandit.resampled(lambda key: (arms, theta), fair.noise, **{f: getattr(fair, f) for f in facts})

    cheat = lb.Policy(
        name="cheat",
        init=lambda arms, params: jnp.zeros((), jnp.int32),
        select=lambda key, state, arms, params: jnp.zeros((), jnp.int32),
        update=lambda state, arms, index, payoffs, params: state + 1,
    )
    monkeypatch.setattr(lower_bound, "lower_bound", known)
    monkeypatch.setattr(lower_bound, "POLICIES", ("oful",))
    monkeypatch.setattr(shared, "make_policy", lambda *names, **options: (cheat, Known(500.0, 1.0)))
    monkeypatch.setattr(driver, "save_figure", lambda figure, path: path.write_bytes(b"drawing"))
    narrow = ["--d", "2", "--epsilon", "1", "--T", "100,500", "--seeds", "3", "--out", str(tmp_path / "run")]
    assert main(["reproduce", "lower-bound", *narrow]) == 1
    out, err = capsys.readouterr()
    assert "BUG: OFUL lies below Theorem 1's lower bound at d=2, ε=1, T=100: mean regret 0 [0, 0] < 0.104" in out
    assert len(re.findall(r"^linbet: BUG: OFUL", err, re.MULTILINE)) == 6  # three scales at two horizons
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text(encoding="utf-8"))
    assert len(manifest["below_the_bound"]) == 6


def test_instances_that_differ_in_numbers_alone_share_a_program():
    regrets = []
    with programs_at_most(1):
        for epsilon, horizon in ((0.5, 250), (1.0, 375)):  # whole stretches
            bandit = instances(4, epsilon, horizon, resample=True)
            policy, params = lb.make_policy("uniform", bandit, horizon=horizon)
            known = {"horizon": horizon, "num_seeds": 400, "num_records": 1, "dtype": "float64"}
            run = lb.simulate(policy, params, bandit, key=jax.random.key(0), **known)
            regrets.append(run.regret[:, -1] / theory.lower_bound_regret(horizon, dim=4, epsilon=epsilon))
            assert np.all(run.health == 0)
    for ratios in regrets:  # playing at random costs T d Delta / 4, four times the bound
        assert abs(ratios.mean() - 4) < 4 * ratios.std() / np.sqrt(400)


# Wrong knowledge


def test_every_policy_is_told_one_wrong_number_at_a_time(stand_in, tmp_path):
    assert run("robustness", tmp_path / "run", "--quiet") == 0
    bandits = {name: lb.dataset(name) for name in ("S1", "S3")}
    played = {}
    for name, policy, horizon, seeds, grid in stand_in.calls:
        assert horizon == 900
        if seeds == 4:  # not tuning
            played.setdefault((name, policy), []).extend(grid)
    assert len(played) == 8
    for (name, policy), grid in played.items():
        bandit = bandits[name]
        field = "central_moment_bound" if policy in ("menu", "mom") else "raw_moment_bound"
        told = {
            (round(getattr(p, field) / getattr(bandit, field), 9), round(p.epsilon / bandit.epsilon, 9), p.radius_scale)
            for p in grid
        }
        epsilons = (0.1, 0.2, 0.5) if name == "S1" else (0.1, 0.2, 0.5, 1.5, 2.0)  # never beyond 1
        wrong = {(r, 1.0) for r in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)} | {(1.0, r) for r in epsilons}
        assert told == {(*pair, scale) for pair in wrong for scale in (1.0, 0.1)}  # 0.1: the stand-in's best
        assert len(grid) == len(told)


def test_what_wrong_knowledge_costs_is_a_paired_difference(stand_in, tmp_path):
    assert run("robustness", tmp_path / "run", "--quiet") == 0
    rows = rows_of(tmp_path / "run" / "robustness.csv")
    assert len(rows) == 4 * 2 * (10 + 12)
    for row in rows:
        # The stand-in's regret is T^0.7 times the sum of what is told, whatever the seed.
        expected = 900**0.7 * float(row["assumed"]) * (1 - 1 / float(row["ratio"]))
        for column in ("cost_mean", "cost_low", "cost_high"):
            assert float(row[column]) == pytest.approx(expected, rel=1e-6, abs=1e-6)
    table = (tmp_path / "run" / "robustness.md").read_text(encoding="utf-8")
    assert "| S1 | MENU ×0.1 | c = 3 |" in table
    assert "| S3 | TOFU | ε = 0.5 |" in table


def test_the_pictures_are_drawn(stand_in, monkeypatch, tmp_path):
    figures = {}
    monkeypatch.setattr(driver, "save_figure", lambda figure, path: figures.update({path.name: figure}))
    for experiment in CELLS:
        assert run(experiment, tmp_path / experiment, "--quiet") == 0
    panels = {name.removesuffix(".png"): figure.axes for name, figure in figures.items() if name.endswith(".png")}
    assert {name: len(axes) for name, axes in panels.items()} == {"coverage": 8, "lower-bound": 2, "robustness": 4}
    for axes in panels.values():
        for ax in axes:
            assert {"MENU", "TOFU"} <= {text.get_text() for text in ax.texts}
