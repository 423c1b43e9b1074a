"""robust_ucb against its oracle, and what its lemma promises."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles_arms import Told, replay_robust_ucb
from scipy import stats
from traces import compiled_quickly

import linbet_jax as lb
from linbet_jax import theory
from linbet_jax.policies import robust_ucb

# Nearly every program runs once, and briefly.
quick_compiles = pytest.fixture(autouse=True, scope="module")(compiled_quickly)

HORIZON, SEEDS = 400, 8
LEVELS = (np.arange(1_000) + 0.5) / 1_000
RESIDUALS = {1.0: stats.t(2.1).ppf(LEVELS), 0.5: stats.pareto(1.6).ppf(LEVELS)}
TURN = np.linalg.qr(np.random.default_rng(2).normal(size=(7, 7)))[0]
ARMS, THETA = TURN[:5], TURN[:5].T @ np.array([0.2, 0.9, -0.5, 0.6, 0.0])  # five orthonormal arms in seven dimensions


def run(epsilon=0.5, scale=1.0, unit=1.0, order=slice(None), **options):
    bandit = lb.LinearBandit(
        ARMS[order], unit * THETA, lb.noise.Empirical(unit * RESIDUALS[epsilon]), epsilon=epsilon
    )  # fmt: skip
    policy, params = lb.make_policy("robust_ucb", bandit, horizon=HORIZON, radius_scale=scale, **options)
    result = lb.simulate(
        policy, params, bandit, horizon=HORIZON, num_seeds=SEEDS, block_size=SEEDS, key=jax.random.key(0), trace=True,
        dtype="float64",
    )  # fmt: skip
    assert not result.health.any()
    return result


@pytest.mark.parametrize(("epsilon", "scale"), [(0.5, 1.0), (1.0, 0.1), (0.5, 0.02), (0.5, 0.0)])
def test_replay(epsilon, scale):
    result = run(epsilon, scale)
    told = Told(HORIZON, result.params.raw_moment_bound, epsilon, scale)
    for seed in range(3):
        means = replay_robust_ucb(5, told, result.trace.arms[seed], result.trace.payoffs[seed])
        np.testing.assert_allclose(result.final_estimate[seed], ARMS.T @ means, rtol=1e-8, atol=1e-10)
    np.testing.assert_array_equal(result.trace.arms[:, :5], np.tile(np.arange(5), (SEEDS, 1)))


def test_the_unit_of_the_payoffs_and_the_order_of_the_arms_do_not_matter():
    plain, larger = run(scale=0.05), run(scale=0.05, unit=8.0)
    np.testing.assert_array_equal(larger.trace.arms, plain.trace.arms)
    np.testing.assert_allclose(larger.final_estimate, 8.0 * plain.final_estimate, rtol=1e-9, atol=1e-12)
    assert np.unique(plain.trace.arms[:, 50:]).size > 3


def step_through(payoffs, indices, **changes):
    params = lb.make_policy("robust_ucb", lb.LinearBandit(np.eye(3), np.ones(3), lb.noise.StudentT(3.0)), horizon=99)[1]
    params = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), params._replace(**changes))
    arms, policy = jnp.eye(3), robust_ucb()
    update, state = jax.jit(policy.update), policy.init(arms, params)
    for index, payoff in zip(indices, payoffs, strict=True):
        state = update(state, arms, index, jnp.asarray([payoff]), params)
    return policy, state, params


def test_payoffs_beyond_the_level_count_as_zero_whatever_they_are():
    policy, state, params = step_through([1e200, 2.0, np.inf, -np.inf, 1.0], [0, 0, 0, 1, 1], raw_moment_bound=1e3)
    np.testing.assert_allclose(policy.region(state, jnp.eye(3), params).center, [2.0 / 3.0, 0.5, 0.0], rtol=1e-15)
    assert bool(policy.finite(state))
    assert int(policy.select(jax.random.key(0), state, jnp.eye(3), params)) == 2
    # b j = L y^2 at p = 2: a payoff on the level is kept, one beyond it is not
    log = theory.robust_ucb_log(99, num_arms=3, delta=0.1)
    _, state, _ = step_through([3.0, 3.001], [0, 1], raw_moment_bound=9.0 * log * (1 + 1e-12))
    np.testing.assert_allclose(state.sums, [3.0, 0.0, 0.0])


def test_golden_values():
    told = {"horizon": 1_000, "num_arms": 5, "delta": 0.1, "raw_moment_bound": 2.0}
    assert theory.robust_ucb_log(1_000, num_arms=5, delta=0.1) == pytest.approx(11.512925, rel=1e-7)
    assert theory.robust_ucb_level(23.02585, epsilon=1.0, **told) == pytest.approx(2.0, rel=1e-6)
    assert theory.robust_ucb_width(4, epsilon=1.0, **told) == pytest.approx(9.597052, rel=1e-6)
    assert theory.robust_ucb_width(11.512925, epsilon=0.5, **told) == pytest.approx(4 * 2 ** (2 / 3), rel=1e-6)


def test_every_width_holds_in_nearly_every_run():
    told = {"horizon": 300, "num_arms": 1, "delta": 0.3, "epsilon": 1.0, "raw_moment_bound": 1.0}
    rng, n = np.random.default_rng(0), np.arange(1, 301)
    y = np.where(rng.uniform(size=(2_000, 300)) < 0.01, 9.0, -0.1 * rng.uniform(size=(2_000, 300)))  # E y^2 < 1
    kept = np.where(np.abs(y) <= theory.robust_ucb_level(n, **told), y, 0.0)
    errors = np.abs(np.cumsum(kept, axis=1) / n - (0.09 - 0.99 * 0.05))
    missed = np.mean(np.any(errors > theory.robust_ucb_width(n, **told), axis=1))
    assert missed <= 0.3
    assert np.max(errors / theory.robust_ucb_width(n, **told)) > 0.1  # and they are of the errors' size


def test_other_sets_are_refused():
    with pytest.raises(ValueError, match="bandit: robust_ucb uses no linear structure and needs orthonormal arms"):
        lb.make_policy("robust_ucb", lb.dataset("S3"), horizon=100)
    sets = np.tile(np.eye(2), (4, 1, 1))
    changing = lb.LinearBandit.from_contexts(sets, np.ones(2), lb.noise.StudentT(3.0))
    with pytest.raises(ValueError, match="robust_ucb keeps one mean per arm, so it needs one decision set"):
        lb.make_policy("robust_ucb", changing, horizon=100)
    _, params = lb.make_policy("robust_ucb", lb.LinearBandit(np.eye(2), [1, 0], lb.noise.StudentT(3.0)), horizon=50)
    with pytest.raises(ValueError, match="policy robust_ucb: init .*robust_ucb keeps one mean per arm"):
        lb.simulate(robust_ucb(), params, changing, horizon=50, num_seeds=1, key=jax.random.key(0))
