"""One file makes a policy: what is registered appears everywhere, on the fast path, without touching another file."""

import importlib
import inspect
import sys
from typing import NamedTuple

import jax
import numpy as np
import pytest

import linbet_jax as lb
from linbet_jax.cli import main
from linbet_jax.policies import registry
from linbet_jax.policies.designs import AnySetsState, FixedSetState
from linbet_jax.sweep.cells import numerics_of, plan
from linbet_jax.sweep.grid import read


@pytest.fixture
def linucb(monkeypatch):
    """The policy of tests/linucb.py, registered for one test."""
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    monkeypatch.delitem(sys.modules, "linucb", raising=False)
    return importlib.import_module("linucb")


def test_a_policy_of_one_file_is_listed_swept_reported_covered_and_tuned(linucb, tmp_path, capsys):
    assert lb.policies.names()[-1] == "linucb"
    assert lb.policies.options("linucb") == {"alpha": 1.0}
    assert main(["list"]) == 0
    assert "linucb" in capsys.readouterr().out
    key, bandit = jax.random.key(0), lb.dataset("S3")
    policy, params = lb.make_policy("linucb", bandit, horizon=60, alpha=0.5)
    result = lb.simulate(policy, params, bandit, horizon=60, num_seeds=16, key=key, coverage=True, dtype="float64")
    assert result.coverage.worst_ratio.shape == (16,)
    tuning = lb.tune(["linucb"], ["S3"], horizon=60, key=key, num_seeds=16, grid=(1.0, 0.1), dtype="float64")
    assert tuning.curves[0].chosen in (1.0, 0.1)
    sweep = tmp_path / "sweep.toml"
    sweep.write_text("seeds = 4\nhorizon = 60\n[sets.S3]\n[policies.linucb]\nalpha = [0.5, 1.0]\n", encoding="utf-8")
    assert main(["sweep", str(sweep), "--out", str(tmp_path / "run"), "--quiet"]) == 0
    assert main(["report", str(tmp_path / "run"), "--format", "html"]) == 0
    page = (tmp_path / "run" / "report" / "index.html").read_text(encoding="utf-8")
    assert "LinUCB" in page
    assert "#117733" in page


def test_a_policy_of_one_file_has_the_fast_form_for_a_fixed_set(linucb):
    bandit = lb.dataset("S3")
    params = linucb.LinUcbParams(*(np.float64(1.0),) * 4)
    changing = lb.LinearBandit.changing_sets(
        lambda key, t: bandit.arms, bandit.theta_star, lb.noise.StudentT(3.0), arm_norm=bandit.arm_norm
    )
    fixed, general = (lb.make_policy("linucb", b, horizon=60)[0] for b in (bandit, changing))
    assert isinstance(jax.eval_shape(fixed.init, bandit.arms, params).design, FixedSetState)
    assert isinstance(jax.eval_shape(general.init, None, params).design, AnySetsState)


def test_a_name_is_registered_once():
    with pytest.raises(ValueError, match=r"policy 'oful': registered already, by linbet_jax\.policies\.oful"):
        lb.policies.register("oful")(lambda setup: None)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (("raw_moment_bound", "beta"), "told='beta': allowed are 'raw_moment_bound', .*'noise_scale'$"),
        ("epsilon", "told='e': allowed are "),  # a comma was forgotten
        (("epsilon",), "told='epsilon': mine has an option of this name itself; leave out one of the two"),
    ],
)
def test_what_a_policy_is_told_is_a_constant_and_no_option_of_its_own(told, message):
    """An option of both would reach one of them alone."""
    with pytest.raises(ValueError, match=message):
        lb.policies.register("mine", told=told)(lambda setup, *, epsilon=None: None)
    assert "mine" not in registry.names()


def test_parameters_that_nothing_fills_are_named():
    class Params(NamedTuple):
        ridge: float
        noise_scale: float

    kept = []
    name = "of a test that keeps its setup"
    lb.policies.register(name, told=("noise_scale",))(lambda setup: kept.append(setup) or lb.policies.uniform())
    try:
        bandit = lb.LinearBandit(np.eye(2), [0.5, 0.1], lb.noise.Gaussian())
        lb.make_policy(name, bandit, horizon=10)
        lb.make_policy(name, bandit, horizon=10, noise_scale=2.0)
    finally:
        del registry._ENTRIES[name]
    plain, given = kept
    assert given.params(Params) == (1.0, 2.0)
    assert plain.params(Params, noise_scale=3.0) == (1.0, 3.0)
    with pytest.raises(ValueError, match=r"noise_scale: the bandit has no such constant; give it by name, params\("):
        plain.params(Params)
    with pytest.raises(TypeError, match="unexpected keyword argument 'scale'"):
        given.params(Params, scale=3.0)


UNPROVED = ("bmm_ucb", "btc_ucb", "sgd", "greedy", "uniform")


def test_every_built_in_policy_says_where_it_comes_from_and_what_it_assumes():
    for name in registry.names():
        entry = registry.entry(name)
        assert entry.source
        assert entry.assumption
        assert entry.time
        assert entry.memory
        assert (entry.rate is None) == (entry.regret == "") == (name in UNPROVED)
        assert entry.valid in ("adaptive", "in advance", "")


@pytest.mark.parametrize("epsilon", [0.2, 0.5, 1.0])
def test_the_exponent_of_t_is_the_one_in_the_words(epsilon):
    for name in registry.names():
        entry = registry.entry(name)
        if entry.rate is not None:
            exponent = entry.regret.partition("T^")[2].replace("½", "1/2").replace("2ε", "2*ε").replace("3ε", "3*ε")
            assert eval(exponent, {"ε": epsilon}) == pytest.approx(entry.rate(epsilon)), name


def test_the_source_of_a_policy_from_outside_is_part_of_a_cell_s_identity(linucb, tmp_path, monkeypatch):
    (tmp_path / "sweep.toml").write_text("seeds = 2\nhorizon = 50\n[sets.S3]\n[policies.linucb]\n[policies.oful]\n")

    def ids():
        sweep = read(tmp_path / "sweep.toml")
        return [cell.id for cell in plan(sweep, numerics_of(sweep, "cpu"), "cpu")]

    before = ids()
    copy = tmp_path / "linucb.py"
    copy.write_text(inspect.getsource(linucb).replace("params.radius_scale * params.alpha", "params.alpha"))
    monkeypatch.setattr(linucb, "__file__", str(copy))
    after = ids()
    assert before[0] != after[0]
    assert before[1] == after[1]
