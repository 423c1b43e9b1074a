"""One file makes a policy: what is registered appears everywhere, on the fast path, without touching another file."""

import importlib
import inspect
import sys

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


def test_every_built_in_policy_says_where_it_comes_from_and_what_it_assumes():
    for name in registry.names():
        entry = registry.entry(name)
        assert entry.source
        assert entry.assumption
        assert (entry.rate is None) == (name in ("greedy", "sgd", "uniform"))


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
