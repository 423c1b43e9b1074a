"""`linbet reproduce later`: what is played and what is refused, one cell for real, and what numbers become."""

import contextlib
import csv
import dataclasses
import io
import math

import jax
import numpy as np
import pytest
from traces import compiled_quickly

import linbet_jax as lb
from linbet_jax.experiments import driver, later
from linbet_jax.experiments.shared import Task
from linbet_jax.policies import entry

# Nearly every program runs once, and briefly.
quick_compiles = pytest.fixture(autouse=True, scope="module")(compiled_quickly)

PULLS, EPOCHS = 200, ("menu", "mom")


class Silent:
    """Hears nothing."""

    def __getattr__(self, name):
        return (lambda *args: contextlib.nullcontext()) if name == "work" else lambda *args: None


@pytest.fixture(scope="module")
def experiment():
    return later.plan(seeds=16, full=False, dtype="float64", horizon=None)


def test_every_policy_plays_every_world_or_says_why_not(experiment):
    titles = {cell.title for cell in experiment.cells if not cell.alone}
    for place in later.worlds():
        assert f"{place}/oful" in titles
        assert f"{place}/uniform" in titles
    assert {title.partition("/")[2] for title in titles} == set(later.policies())
    assert "S4/btc_ucb" not in titles  # minutes; with full it is there
    assert "changing/gopt_elim" not in titles
    assert "S3/crmm" not in titles
    assert "stable/crmm" in titles
    timed = [cell.title for cell in experiment.cells if cell.alone]
    assert sorted({title.split("/")[1] for title in timed}) == sorted(later.policies())
    assert len(timed) == len(later.policies()) + 1  # OFUL in both worlds
    assert {"S1/oful/time", "orthonormal/oful/time", "S1/gopt_elim/time"} <= set(timed)


def test_the_full_version_is_larger_and_the_plan_says_what_it_costs(experiment):
    full = later.plan(seeds=None, full=True, dtype="float64")
    assert {cell.identity["horizon"] for cell in full.cells} == {later.FULL_HORIZON}
    assert {cell.identity["seeds"] for cell in full.cells if not cell.alone} == {later.FULL_SEEDS}
    assert "S4/btc_ucb" in {cell.title for cell in full.cells}
    assert full.core_seconds > 3 * experiment.core_seconds
    assert "minutes on 2 cores" in full.cost(2)


def task_of(policy, place="S1"):
    bandit = later.worlds()[place]
    return Task(
        place,
        bandit,
        "",
        policy,
        max(PULLS, 600 * (policy in EPOCHS)),
        16,
        (1.0,),
        later.SEED,
        "float64",
        later.DELTA,
        later.RIDGE,
    )


def test_a_cell_is_tuned_on_other_seeds_and_plays_what_simulate_plays():
    task = task_of("oful")
    result = later._compute(task, driver.Progress(Silent(), 10**9))
    finding = later._finding(task, result)
    policy, params = lb.make_policy("oful", task.bandit, horizon=PULLS)
    known = {"horizon": PULLS, "num_seeds": 16, "num_records": later.RECORDS, "coverage": True, "dtype": "float64"}
    alone = lb.simulate(policy, params, task.bandit, key=jax.random.key(later.SEED), **known)
    np.testing.assert_allclose(finding.literal, alone.regret, rtol=1e-12)
    np.testing.assert_allclose(finding.ratios, alone.coverage.worst_ratio, rtol=1e-9)
    grid = [params._replace(radius_scale=scale) for scale in later.GRID]
    known["num_seeds"] = later.TUNING_SEEDS
    tuning = lb.simulate_grid(policy, grid, task.bandit, key=jax.random.key(later.SEED + 1), **known)
    means = [run.regret[:, -1].mean() for run in tuning]
    assert finding.chosen == later.GRID[int(np.argmin(means))] != 1.0
    assert finding.ends[1].mean < finding.ends[0].mean
    assert math.isnan(finding.microseconds)
    assert not finding.proved


def made_up(policy, means, place="S1", ratios=0.5):
    """A finding whose literal and tuned regrets have these means."""
    literal, tuned = (mean * np.linspace(0.9, 1.1, 16)[:, None] * [0.5, 1.0] for mean in means)
    health = np.zeros((2, 16), np.int64)
    seen = np.full(16, ratios) if entry(policy).valid else np.full(16, np.nan)
    return later.Finding(
        task_of(policy, place), np.array([100, 200]), literal, tuned, 0.1, health, seen, 2.0 if policy != "crt" else 6.0
    )


def test_a_star_needs_an_assumption_that_the_worlds_meet():
    proved = {name: made_up(name, (1.0, 1.0)).proved for name in ("adar_ucb", "robust_ucb", "oful", "menu", "crtm")}
    assert proved == {"adar_ucb": False, "robust_ucb": True, "oful": False, "menu": False, "crtm": True}


def test_numbers_become_ranks_shares_and_a_headline():
    findings = [
        made_up("menu", (30.0, 20.0)),
        made_up("crt", (50.0, 10.0), ratios=1.25),
        made_up("gopt_elim", (25.0, 10.0)),
        made_up("oful", (10.0, 40.0)),
        made_up("uniform", (100.0, 100.0)),
    ]
    findings[0].health[0, 3] = 7  # one seed of MENU is ill
    outputs = later._outputs(findings, ["A note"], ["MENU does not play that: a reason"])
    rows = {row["policy"]: row for row in csv.DictReader(io.StringIO(outputs.documents["later.csv"]))}
    assert [row["proved"] for row in rows.values()] == ["no", "yes", "yes", "no", "no"]
    assert float(rows["crt"]["covered"]) == 0.0
    assert float(rows["gopt_elim"]["covered"]) == 1.0
    assert rows["menu"]["seeds"] == "15"
    assert outputs.unhealthy == 1
    table = [line.split() for line in outputs.text.splitlines() if line.startswith(("MENU", "CRT*", "OFUL", "unif"))]
    assert [row[4] for row in table[:4]] == ["3", "4", "1", "5"]  # rank of the literal regret
    assert outputs.text.count("A note") == 0
    markdown = outputs.documents["later.md"]
    assert "S1: of those proved here G-opt. elimination learns fastest, 0.250 of uniform play's regret" in markdown
    assert "; of all OFUL, 0.100" in markdown
    assert "- A note." in markdown
    assert "- MENU does not play that: a reason." in markdown
    assert [line.split()[-1] for line in outputs.text.splitlines() if line.startswith("CRT  ")] == [
        "3.0"
    ]  # times OFUL's
    assert list(outputs.figures) == ["later"]


def test_stages_are_not_tuned_and_nobody_is_counted_twice():
    assert not later._has_radius(task_of("sup_bmm"))
    assert later._has_radius(task_of("bmm_ucb"))
    finding = made_up("uniform", (50.0, 50.0))
    finding.health[:, :3] = 7
    assert dataclasses.replace(finding, chosen=1.0).unhealthy == 3
    assert finding.unhealthy == 6
    notes = later._frozen([task_of(name, "changing") for name in ("menu", "oful", "mom")])
    assert notes[0].startswith("MENU, MoM keep the set of an epoch's first pull")


def test_a_radius_that_missed_once_is_seen():
    finding = made_up("crt", (50.0, 10.0))
    finding.ratios[0] = 1.5
    assert finding.covered[0] == 15 / 16
    assert np.isnan(dataclasses.replace(finding, ratios=np.full(16, np.nan)).covered[0])
