"""adar_ucb against its oracle, and what its level promises."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles_arms import adar_level, replay_adar_ucb
from scipy import stats
from traces import compiled_quickly

import linbet_jax as lb
from linbet_jax import theory
from linbet_jax.policies import adar_ucb
from linbet_jax.policies.adar_ucb import _level

HORIZON, SEEDS = 1_201, 4
LEVELS = (np.arange(1_000) + 0.5) / 1_000
TURN = np.linalg.qr(np.random.default_rng(2).normal(size=(5, 5)))[0]
ARMS, THETA = TURN[:3], TURN[:3].T @ np.array([-1.5, 0.0, -0.6])  # three orthonormal arms in five dimensions

quick_compiles = pytest.fixture(autouse=True, scope="module")(compiled_quickly)


def problem(unit=1.0, order=slice(None), spread=1.0):
    law = lb.noise.Empirical(unit * spread * stats.t(1.6).ppf(LEVELS))
    return lb.LinearBandit(ARMS[order], unit * THETA, law, epsilon=0.5)


def run(bandit, scale=1.0, made=None):
    policy, params = lb.make_policy("adar_ucb", bandit, horizon=HORIZON, radius_scale=scale)
    result = lb.simulate(
        made or policy, params, bandit, horizon=HORIZON, num_seeds=SEEDS, block_size=SEEDS, key=jax.random.key(0),
        trace=True, dtype="float64",
    )  # fmt: skip
    assert not result.health.any()
    return result


@pytest.mark.parametrize("scale", [1.0, 0.05, 0.0])
def test_replay(scale):
    result = run(problem(), scale)
    for seed in range(2):
        means, widths = replay_adar_ucb(3, scale, result.trace.arms[seed], result.trace.payoffs[seed])
        np.testing.assert_allclose(result.final_estimate[seed], ARMS.T @ means, rtol=1e-8, atol=1e-10)
        assert np.all(np.isfinite(widths)) or scale < 1.0
    pulls = result.trace.arms[:, : HORIZON - 1].reshape(SEEDS, -1, 2)
    assert np.all(pulls[..., 0] == pulls[..., 1])
    assert len(np.unique(result.trace.arms[:, 800:])) > 1  # the index decides there


def test_the_unit_of_the_payoffs_and_a_small_buffer_do_not_matter():
    plain, larger = run(problem(), 0.05), run(problem(unit=8.0), 0.05)
    np.testing.assert_array_equal(larger.trace.arms, plain.trace.arms)
    np.testing.assert_allclose(larger.final_estimate, 8.0 * plain.final_estimate, rtol=1e-9, atol=1e-12)
    assert plain.reruns == 0
    repeated = run(problem(), 0.05, adar_ucb(capacity=39))  # then 156, as in the others
    assert repeated.reruns > 0
    np.testing.assert_array_equal(repeated.trace.arms, plain.trace.arms)
    np.testing.assert_allclose(repeated.final_estimate, plain.final_estimate, rtol=1e-9, atol=1e-12)


def test_it_finds_the_best_arm():
    result = run(problem(spread=0.1), 0.3)
    assert np.all(np.mean(result.trace.arms[:, -200:] == 1, axis=1) > 0.5)


def fed(pairs, num_arms=2, capacity=64):
    policy, arms = adar_ucb(capacity=capacity), jnp.eye(num_arms)
    params = jax.tree.map(jnp.asarray, lb.make_policy("adar_ucb", lb.LinearBandit(
        np.eye(num_arms), np.zeros(num_arms), lb.noise.StudentT(3.0)), horizon=200)[1])  # fmt: skip
    state, update = policy.init(arms, params), jax.jit(policy.update)
    for index, pair in pairs:
        state = update(state, arms, index, jnp.asarray(pair, arms.dtype), params)
    return policy, state, params, arms


def test_payoffs_of_any_size_are_kept_in_their_order():
    values = [1e200, 2.0, -np.inf, 0.0, -3.0, 0.5]
    policy, state, params, arms = fed([(1, (value, 2 * value)) for value in values], capacity=3)
    np.testing.assert_allclose(state.first.sizes[1], [1e150, 1e150, 3.0])
    np.testing.assert_allclose(state.first.sums[1, 2:], [-0.5, 2.5])
    np.testing.assert_allclose(state.second.squares[1, 2:], [53.0, 17.0])
    assert np.all(np.asarray(state.first.sizes[0]) == 0)
    assert bool(policy.finite(state))
    assert int(state.nonzero[1]) == 5
    assert int(policy.select(jax.random.key(0), state, arms, params)) == 0
    broken = fed([(0, (np.nan, 1.0))], capacity=3)[1]
    assert not bool(policy.finite(broken))


def test_the_level_solves_its_equation():
    rng = np.random.default_rng(4)
    for payoffs in (rng.standard_t(1.3, 60), np.repeat([1.0, 0.0], 30), rng.pareto(0.8, 60) + 1.0):
        _, state, _, _ = fed([(0, (0.0, value)) for value in payoffs], num_arms=1)
        for mass in (7.5, 29.5):
            (level,), _ = _level(state.second, mass)
            assert np.sum(np.minimum(payoffs**2 / level**2, 1.0)) == pytest.approx(mass, rel=1e-9)
            assert level == pytest.approx(adar_level(payoffs, mass), rel=1e-9)


def test_golden_values():
    assert theory.adar_ucb_log(100) == pytest.approx(13.815511, rel=1e-7)
    assert theory.adar_ucb_mass(100) == pytest.approx(80.522696, rel=1e-7)
    assert theory.adar_ucb_mass(1) == 0
    expected = math.sqrt(2 * 3 * 13.815511 / 50) + 10 * 0.7 * 13.815511 / 50
    assert theory.adar_ucb_width(50, step=100, variance=3.0, level=0.7) == pytest.approx(expected, rel=1e-7)
    assert theory.regret_exponent("adar_ucb", 0.5) == pytest.approx(2 / 3)


def test_the_best_arm_is_hardly_ever_underrated():
    # Payoffs of mean 0 with E[y 1{|y| > m}] <= 0 for every m: rare ones of two points that are negative, and t(2.1)
    rng, n, step, rare = np.random.default_rng(0), 150, 200, 2e-2
    spikes = np.where(rng.uniform(size=(400, 2, n)) < rare, -1.0, rare / (1 - rare))
    ratios = []
    for first, second in [*spikes, *rng.standard_t(2.1, size=(400, 2, n))]:
        level = adar_level(second, theory.adar_ucb_mass(step))
        y = np.where(np.abs(first) <= level, first, 0.0)
        width = theory.adar_ucb_width(n, step=step, variance=float(y.var(ddof=1)), level=level)
        ratios.append(-y.mean() / width)
    assert max(ratios) <= 1
    assert max(ratios) > 0.01  # and the width is of the error's size


def test_other_sets_are_refused():
    with pytest.raises(ValueError, match="bandit: adar_ucb uses no linear structure and needs orthonormal arms"):
        lb.make_policy("adar_ucb", lb.dataset("S3"), horizon=100)
