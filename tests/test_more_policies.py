"""lints, sgd, explore_then_commit and mean_of_medians: recorded runs against plain NumPy, and what they promise."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from traces import quickly

import linbet_jax as lb
from linbet_jax import theory
from linbet_jax.noise.words import normals
from linbet_jax.simulation import launches

SEEDS, HORIZON = 3, 400
KEY = jax.random.key(0)
RNG = np.random.default_rng(11)
ARMS, THETA = RNG.uniform(size=(8, 3)), np.array([0.9, 0.2, -0.6])
S = float(np.linalg.norm(THETA))


@pytest.fixture(autouse=True, scope="module")
def quick_compiles():
    """Programs that run once each and are compared with nothing but an oracle."""
    launches._PROGRAMS.clear()
    with quickly():
        yield
    launches._PROGRAMS.clear()


def problem(unit=1.0, arms=ARMS, noise=None):
    return lb.LinearBandit(arms, unit * THETA, noise or lb.noise.StudentT(3.0, unit))


@functools.cache
def turning():
    """Arms that turn with the pull, and all their sets, [T, K, d]."""
    steps = np.arange(1, HORIZON + 1)[:, None] * 0.7 + 2.0 * np.pi * np.arange(5) / 5
    sets = np.stack([np.cos(steps), np.sin(steps), 0.5 * np.cos(3.0 * steps)], axis=-1)
    return lb.LinearBandit.from_contexts(sets, THETA, lb.noise.StudentT(3.0)), sets


def run(name, bandit, scale=1.0, horizon=HORIZON, **options):
    policy, params = lb.make_policy(name, bandit, horizon=horizon, radius_scale=scale, **options)
    return played(policy, params, bandit, horizon)


def played(policy, params, bandit, horizon=HORIZON, coverage=False):
    result = lb.simulate(
        policy, params, bandit, horizon=horizon, num_seeds=SEEDS, block_size=SEEDS, key=KEY, trace=True,
        coverage=coverage, dtype="float64",
    )  # fmt: skip
    assert not result.health.any()
    return result


def choice_keys(seed, horizon=HORIZON):
    """The keys of randomised choices, pull by pull, as the simulator documents them."""
    chosen = jax.random.fold_in(jax.random.fold_in(KEY, seed), 1)
    return jax.vmap(lambda t: jax.random.fold_in(chosen, t))(jnp.arange(1, horizon + 1))


# LinTS


def root_of(gram_steps, ridge, dim):
    """N with N^T N = V^-1 after the features seen so far, by the rank-one formula."""
    root = np.eye(dim) / math.sqrt(ridge)
    yield root
    for feature in gram_steps:
        w = root @ feature
        s = w @ w
        root = root - np.outer(w, root.T @ w) / (1.0 + s + math.sqrt(1.0 + s))
        yield root


@pytest.mark.parametrize("sets", ["fixed", "turning"])
def test_replay_of_lints(sets):
    bandit, every = (problem(), None) if sets == "fixed" else turning()
    deviation = math.sqrt(3.0)
    for scale, ridge in ((1.0, 1.0), (0.05, 0.5)):
        policy, params = lb.make_policy("lints", bandit, horizon=HORIZON, radius_scale=scale, ridge=ridge)
        result = played(policy, params, bandit, coverage=scale == 1.0)
        v = deviation * math.sqrt(9.0 * 3 * math.log(HORIZON / 0.1))
        assert dict(policy.about.facts)["v"] == pytest.approx(v, rel=1e-14)
        for seed in range(SEEDS):
            drawn = np.asarray(jax.vmap(lambda key: normals(key, 3, jnp.float64))(choice_keys(seed)))
            arms, payoffs = result.trace.arms[seed], result.trace.payoffs[seed]
            at = (lambda t: ARMS) if every is None else (lambda t: every[t])
            features = np.array([at(t)[arm] for t, arm in enumerate(arms)])
            gram, moments, worst = ridge * np.eye(3), np.zeros(3), 0.0
            for t, root in zip(range(HORIZON), root_of(features, ridge, 3), strict=False):
                np.testing.assert_allclose(root.T @ root @ gram, np.eye(3), atol=1e-8)
                values = at(t) @ (np.linalg.solve(gram, moments) + scale * v * root.T @ drawn[t])
                assert values[arms[t]] >= values.max() - 1e-9 * (1 + abs(values.max()))
                gram = gram + np.outer(features[t], features[t])
                moments = moments + features[t] * payoffs[t]
                error = np.linalg.solve(gram, moments) - THETA
                beta = (
                    deviation * math.sqrt(np.linalg.slogdet(gram / ridge)[1] + 2 * math.log(10)) + math.sqrt(ridge) * S
                )
                worst = max(worst, math.sqrt(error @ gram @ error) / beta)
            np.testing.assert_allclose(result.final_estimate[seed], np.linalg.solve(gram, moments), rtol=1e-8)
            if result.coverage is not None:
                assert result.coverage.worst_ratio[seed] == pytest.approx(worst, rel=1e-8)
        assert np.unique(result.trace.arms[0]).size > 2


def test_normal_numbers_are_normal_and_a_key_decides_them():
    keys = jax.vmap(lambda i: jax.random.fold_in(KEY, i))(jnp.arange(4_000))
    drawn = np.asarray(jax.vmap(lambda key: normals(key, 5, jnp.float64))(keys))
    assert stats.kstest(drawn.ravel(), stats.norm.cdf).pvalue > 1e-3
    assert np.max(np.abs(np.corrcoef(drawn.T) - np.eye(5))) < 5 / math.sqrt(len(drawn))
    assert np.max(np.abs(np.corrcoef((drawn**2).T) - np.eye(5))) < 5 / math.sqrt(len(drawn))
    other = jax.random.key(3, impl="rbg")
    assert normals(other, 3, jnp.float32).shape == (3,)
    np.testing.assert_array_equal(normals(KEY, 4, jnp.float64)[:2], normals(KEY, 4, jnp.float32)[:2])


def test_lints_refreshes_a_root_that_has_drifted():
    policy, params = lb.make_policy("lints", problem(), horizon=HORIZON)
    params, arms = jax.tree.map(jnp.asarray, params), jnp.asarray(ARMS)
    state = policy.init(arms, params)
    for index in (0, 3, 3, 7):
        state = policy.update(state, arms, index, jnp.ones(1), params)
    drifted = state._replace(turned=state.turned + 1e-5, root=state.root + 1e-5)
    inverse = np.linalg.inv(np.eye(3) + ARMS[[0, 3, 3, 7]].T @ ARMS[[0, 3, 3, 7]])
    fresh = policy.refresh(drifted, arms, params)
    np.testing.assert_allclose(fresh.root.T @ fresh.root, inverse, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(fresh.root, fresh.turned.T)


def test_the_unit_of_the_payoffs_does_not_matter_to_lints():
    plain, larger = run("lints", problem(), 0.05), run("lints", problem(unit=8.0), 0.05)
    np.testing.assert_array_equal(larger.trace.arms, plain.trace.arms)
    np.testing.assert_allclose(larger.final_estimate, 8.0 * plain.final_estimate, rtol=1e-9)
    greedily = run("lints", problem(), 0.0)
    np.testing.assert_array_equal(greedily.trace.arms, run("greedy", problem()).trace.arms)
    assert theory.lints_scale(400.0, dim=3, delta=0.1, noise_scale=0.0) == 0
    assert lb.make_policy("lints", lb.dataset("S3"), horizon=9)[0].about.notes[0].startswith("LinTS's noise_scale is 1")
