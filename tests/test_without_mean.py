"""Noise without a mean: what a bandit says of it, who plays it, and who refuses."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from traces import compiled_quickly

import linbet_jax as lb
from linbet_jax.noise import Mixture, StudentT, SymmetricStable
from linbet_jax.policies import registry

quick_compiles = pytest.fixture(autouse=True, scope="module")(compiled_quickly)

CAUCHY = StudentT(1.0, scale=0.5)
ARMS = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [-1.0, 0.5]])
THETA = np.array([0.5, -0.25])
BANDIT = lb.LinearBandit(ARMS, THETA, CAUCHY)
PLAYERS = {"crmm", "explore_then_commit", "mean_of_medians", "uniform"}


def generator(key):
    return jnp.asarray(ARMS), jnp.asarray(THETA)


def sampler(key, pull):
    return jnp.asarray(ARMS)


@pytest.mark.parametrize(
    "build",
    [
        lambda: BANDIT,
        lambda: lb.LinearBandit(ARMS, THETA, SymmetricStable(0.7)),
        lambda: lb.LinearBandit(ARMS, THETA, Mixture([CAUCHY, lb.noise.Gaussian()], [1, 9])),
        lambda: lb.LinearBandit.resampled(generator, CAUCHY),
        lambda: lb.LinearBandit.resampled(generator, CAUCHY, best_mean=0.5, mean_bound=1.0),
        lambda: lb.LinearBandit.changing_sets(sampler, THETA, CAUCHY, arm_norm=2.0),
        lambda: lb.LinearBandit.from_contexts(ARMS[None], THETA, CAUCHY),
        lambda: lb.datasets.make_instance(4, 2, CAUCHY, best_mean=1.0),
        lambda: lb.datasets.separating("lock", noise=CAUCHY),
    ],
)
def test_a_bandit_without_a_mean_has_no_epsilon_and_no_moments(build):
    bandit = build()
    assert (bandit.epsilon, bandit.raw_moment_bound, bandit.central_moment_bound) == (0.0, math.inf, math.inf)
    assert bandit.noise_std == math.inf
    size = bandit.noise_quantile
    assert bandit.noise.cdf(-size) + 1.0 - bandit.noise.cdf(size) == pytest.approx(0.25, rel=1e-9)


def test_moments_that_are_not_there_are_refused():
    refused = r"must not be given for Student t\(1, scale 0.5\), which has no mean, got 0.5"
    for field in ("epsilon", "raw_moment_bound", "central_moment_bound"):
        for build in (
            lambda **said: lb.LinearBandit(ARMS, THETA, CAUCHY, **said),
            lambda **said: lb.LinearBandit.resampled(generator, CAUCHY, **said),
            lambda **said: lb.LinearBandit.changing_sets(sampler, THETA, CAUCHY, arm_norm=2.0, **said),
        ):
            with pytest.raises(ValueError, match=f"{field} {refused}"):
                build(**{field: 0.5})


def test_who_needs_a_moment_refuses_and_names_it():
    for name in registry.names():
        if name in PLAYERS:
            lb.make_policy(name, BANDIT, horizon=2_000)
            continue
        about = registry.entry(name)
        moment = {"raw_moment_bound": r"E\|payoff\|\^", "central_moment_bound": r"E\|payoff - mean\|\^", None: "E"}
        with pytest.raises(ValueError, match=f"bandit: {name} needs a finite .*{moment[about.moment]}.* has no mean; "):
            lb.make_policy(name, BANDIT, horizon=2_000)
    assert {name for name in registry.names() if not registry.entry(name).needs_mean} == PLAYERS


def test_the_quantile_is_the_law_s_own_or_the_one_given():
    for name in ("crmm", "mean_of_medians"):
        policy, _ = lb.make_policy(name, BANDIT, horizon=2_000)
        assert dict(policy.about.facts)["R"] == pytest.approx(0.5 * math.tan(3 * math.pi / 8), rel=1e-9)
        assert policy.about.notes == (f"{name}'s quantile is the law's own: the noise has no moment",)
        policy, _ = lb.make_policy(name, BANDIT, horizon=2_000, quantile=3.0)
        assert (dict(policy.about.facts)["R"], policy.about.notes) == (3.0, ())
        for field in ("epsilon", "central_moment_bound"):
            with pytest.raises(ValueError, match=f"{field}=0.5: must not be given, .* has no mean; give quantile"):
                lb.make_policy(name, BANDIT, horizon=2_000, **{field: 0.5})
    policy, params = lb.make_policy("mean_of_medians", BANDIT, horizon=9_000, base="menu")
    assert params.epsilon == 1.0  # of the medians

    class Own:  # a law that does not say how large its noise is
        name, max_order, mean_range, symmetric = "own", 0.8, (-math.inf, math.inf), True

        def standard(self, key, dtype=None):
            return jax.random.cauchy(key, dtype=lb.noise.float_dtype(dtype))

        def payoff(self, standard, mean):
            return mean + standard

    own = lb.LinearBandit(ARMS, THETA, Own())
    assert own.noise_quantile == math.inf
    with pytest.raises(ValueError, match=r"quantile=None: the noise has no moment for crmm .* must be R with P"):
        lb.make_policy("crmm", own, horizon=2_000)
    Own.exceeded = lambda self, probability: "much"
    with pytest.raises(ValueError, match=r"noise: own.exceeded\(0.25\) must return a number of at least 0, got 'much'"):
        lb.make_policy("crmm", own, horizon=2_000)


def test_a_quantile_whose_square_floats_do_not_hold():
    lb.make_policy("mean_of_medians", BANDIT, horizon=2_000, quantile=1e200)  # OFUL takes no square
    with pytest.raises(ValueError, match="base='tofu', .*raw_moment_bound=inf: must be "):
        lb.make_policy("mean_of_medians", BANDIT, horizon=2_000, quantile=1e200, base="tofu")


def test_regret_is_by_the_centres():
    policy, params = lb.make_policy("crmm", BANDIT, horizon=300, radius_scale=0.1)
    run = lb.simulate(
        policy, params, BANDIT, horizon=300, num_seeds=8, key=jax.random.key(1), trace=True, dtype="float32"
    )
    assert not run.health.any()
    gaps = np.max(ARMS @ THETA) - ARMS @ THETA
    np.testing.assert_allclose(run.regret[:, -1], gaps[run.trace.arms].sum(axis=1), rtol=1e-5)
    noise = np.abs(run.trace.payoffs - (ARMS @ THETA)[run.trace.arms])
    assert abs(np.mean(noise > BANDIT.noise_quantile) - 0.25) < 5.0 * math.sqrt(0.25 * 0.75 / noise.size)
