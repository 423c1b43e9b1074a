"""`lb.tune`: the choice of a scale, the key it draws from, the curve it returns, and what it refuses."""

import dataclasses
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import linbet_jax as lb
from linbet_jax.figures.plotting import tuning_figure
from linbet_jax.statistics import tuning

KEY = jax.random.key(4)


@pytest.fixture
def simulator(monkeypatch):
    """Stands in for `simulate_grid`: regret |ln(scale / best)| plus an offset by seed; a log of the calls."""
    calls = []

    def stand_in(policy, grid, bandit, *, horizon, num_seeds, key, progress, **known):
        calls.append(
            (policy.name, bandit.name, horizon, num_seeds, np.asarray(jax.random.key_data(key)).tolist(), known)
        )
        best = {"menu": 1.0, "tofu": 0.03, "crt": 0.01}[policy.name]
        results = []
        for params in grid:
            offset = np.arange(num_seeds) ** 2 * (params.radius_scale == 0.03)
            regret = (abs(np.log(params.radius_scale / best)) + offset)[:, None] * horizon
            results.append(
                SimpleNamespace(
                    regret=regret, health=np.zeros(num_seeds, int), notes=policy.about.notes, reruns=0,
                    compile_seconds=1.0, run_seconds=2.0,
                )
            )  # fmt: skip
        progress(len(grid) * num_seeds, len(grid) * num_seeds)
        return results

    monkeypatch.setattr(tuning, "simulate_grid", stand_in)
    return calls


def test_every_policy_meets_one_grid_one_key_and_as_many_seeds(simulator):
    told = []
    found = lb.tune(
        ["tofu", "crt"], ["S3", "S4"], horizon=500, key=KEY, num_seeds=3, progress=lambda *counts: told.append(counts)
    )
    assert [(c.policy, c.bandit) for c in found] == [("tofu", "S3"), ("crt", "S3"), ("tofu", "S4"), ("crt", "S4")]
    assert {(horizon, seeds, tuple(key)) for _, _, horizon, seeds, key, _ in simulator} == {
        (500, 3, tuple(np.asarray(jax.random.key_data(tuning.tuning_key(KEY))).tolist()))
    }
    assert told == [(21, 84), (42, 84), (63, 84), (84, 84)]
    curve = found["crt", "S4"]
    assert len(found) == 4
    assert (curve.chosen, curve.horizon, curve.grid) == (0.01, 500, tuning.GRID)
    assert curve.regret.shape == curve.health.shape == (7, 3)
    np.testing.assert_allclose(curve.values, np.abs(np.log(np.array(tuning.GRID) / 0.01)) * 500 + curve_offset(curve))
    assert [s.n for s in curve.summaries] == [3] * 7
    with pytest.raises(KeyError, match="'mom', 'S3'.*: tuned are tofu on S3, crt on S3"):
        found["mom", "S3"]


def curve_offset(curve):
    return np.where(np.array(curve.grid) == 0.03, 500 * np.mean([0, 1, 4]), 0)


@pytest.mark.parametrize(
    ("criterion", "chosen"),
    # At 0.03, TOFU's best, the seeds' regrets are 0, 1, 4, 9, ...: the quantile says how many of them count.
    [("mean", 0.01), ("median", 0.01), (0.05, 0.03), (0.9, 0.01)],
)
def test_the_criterion_decides(simulator, criterion, chosen):
    [curve] = lb.tune("tofu", "S3", horizon=500, key=KEY, num_seeds=5, criterion=criterion)
    assert (curve.chosen, curve.criterion) == (chosen, criterion)
    assert curve.values[curve.grid.index(chosen)] == np.min(curve.values)


def test_a_choice_at_the_edge_of_the_grid_says_so(simulator):
    bandit = lb.dataset("S3")
    mine = lb.tune(
        {"a": "menu", "b": lambda bandit: lb.make_policy("crt", bandit, horizon=500, scaled=True)},
        {"here": bandit},
        (0.3, 0.01, 1.0),
        horizon=500,
        key=KEY,
        num_seeds=2,
    )
    assert [(c.policy, c.chosen, c.at_edge) for c in mine] == [("a", 1.0, True), ("b", 0.01, True)]
    inside = lb.tune("crt", {"here": bandit}, (0.3, 0.01, 0.001), horizon=500, key=KEY, num_seeds=2)["crt", "here"]
    assert not inside.at_edge


def test_an_unhealthy_scale_has_no_value_and_is_not_chosen():
    curve = tuning.TuningCurve(
        "tofu", "S3", 10, (1.0, 0.1), "mean", np.array([[5.0, 5.0], [np.nan, 1.0]]), np.array([[0, 0], [3, 0]]), 1.0
    )
    np.testing.assert_array_equal(curve.values, [5.0, np.nan])
    assert [s.unhealthy for s in curve.summaries] == [0, 1]


def test_tuning_is_simulate_under_another_key_and_leaves_the_evaluation_alone():
    bandit = lb.LinearBandit(np.eye(3), [1.0, 0.5, 0.2], lb.noise.StudentT(3.0))
    policy, params = lb.make_policy("oful", bandit, horizon=60)
    [curve] = lb.tune("oful", bandit, (1.0, 0.1), horizon=60, key=KEY, num_seeds=3, dtype="float64")
    grid = [params._replace(radius_scale=scale) for scale in (1.0, 0.1)]
    known = {"horizon": 60, "num_seeds": 3, "num_records": 1, "dtype": "float64"}
    same = lb.simulate_grid(policy, grid, bandit, key=jax.random.fold_in(KEY, np.uint32(2**32 - 1)), **known)
    np.testing.assert_array_equal(curve.regret, [run.regret[:, -1] for run in same])
    other = lb.simulate_grid(policy, grid, bandit, key=KEY, **known)
    assert not np.array_equal(curve.regret, [run.regret[:, -1] for run in other])


def test_the_picture_names_choices_and_edges(simulator):
    found = lb.tune(["menu", "tofu", "crt"], ["S1", "S3"], horizon=500, key=KEY, num_seeds=5)
    figure = tuning_figure(found, title="Tuning")
    for ax in figure.axes:
        labels = {text.get_text() for text in ax.texts}
        assert labels == {"MENU (edge)", "TOFU ×0.01", "CRT ×0.01"}
        assert ax.get_xlabel() == "radius_scale"
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["S1, T=500", "S3, T=500"]


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"grid": []}, r"grid=\[\]: must be a list of positive scales"),
        ({"grid": [1.0, 0.0]}, "grid: 0.0 must be a positive and finite scale"),
        ({"grid": [1.0, float("nan")]}, "grid: nan must be a positive and finite scale"),
        ({"grid": [1.0, 1]}, r"grid=\[1.0, 1.0\]: must hold each scale once"),
        ({"criterion": "best"}, "criterion='best': allowed are 'mean', 'median' and the probability"),
        ({"criterion": 1.0}, "criterion=1.0: allowed are"),
        ({"num_seeds": 0}, "num_seeds=0: must be a whole number, at least 1"),
        ({"policies": ["uniform"]}, "policies: uniform has no radius_scale to tune"),
        ({"policies": ["tofuu"]}, "policy 'tofuu' .*: known are"),
        ({"policies": []}, r"policies=\{\}: must name one at least"),
        ({"policies": [3]}, r"policies=\[3\]: must be names"),
        ({"bandits": "S9"}, "name must be one of S1, S2, S3, S4"),
        ({"bandits": [3]}, "bandits: 3 must be a linbet_jax.LinearBandit or the name of a data set"),
        ({"bandits": ["S1", "S1"]}, "must have different names; give a mapping"),
        ({"bandits": []}, r"bandits=\[\]: must name one at least"),
        ({"bandits": 3}, "bandits=3: must be bandits or names of data sets"),
        ({"horizon": 0}, "horizon=0: must be a whole number, at least 1"),
    ],
)
def test_wrong_input_is_refused_before_anything_runs(simulator, known, message):
    asked = {"policies": ["tofu"], "bandits": ["S3"], "grid": (1.0, 0.1), "horizon": 500, "key": KEY, **known}
    with pytest.raises(ValueError, match=message):
        lb.tune(**asked)
    assert simulator == []


def test_a_tuning_prints_one_line():
    curve = tuning.TuningCurve("oful", "S3", 20, (1.0, 0.1, 0.01), "mean", np.ones((3, 2)), np.zeros((3, 2), int), 0.1)
    assert repr(curve) == "TuningCurve(oful on S3: 0.1 of 3 scales)"
    assert repr(dataclasses.replace(curve, chosen=1.0)).endswith("1 of 3 scales, an end of the grid)")
    assert repr(tuning.Tuning((curve,))) == "Tuning(oful on S3 0.1)"
