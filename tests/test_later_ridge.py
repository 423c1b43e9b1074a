"""hvt_ucb, crtm and crmm against their oracles, and what their derivations promise.

One law serves nearly all: `Empirical` with as many residuals is one compiled program for noise of every shape.
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import assert_replays
from oracles_later import CrmmOracle, CrtmOracle, HvtOracle, LaterConstants, crmm_pulls
from scipy import stats
from traces import compiled_quickly

import linbet_jax as lb
from linbet_jax import theory
from linbet_jax.policies import AnySets, FixedSet, crmm, hvt_ucb, oful

# Nearly every program runs once, and briefly.
quick_compiles = pytest.fixture(autouse=True, scope="module")(compiled_quickly)

HORIZON, SEEDS, RESIDUALS = 600, 16, 1_000
RNG = np.random.default_rng(11)
ARMS, THETA = RNG.uniform(size=(12, 4)), np.array([0.9, 0.2, 0.6, -0.4])
LEVELS = (np.arange(RESIDUALS) + 0.5) / RESIDUALS
NOISES = {  # name: epsilon, residuals; quantiles of the law, so that the sample is as heavy as 1000 numbers can be
    "t(2.1)": (1.0, stats.t(2.1).ppf(LEVELS)),
    "t(1.6)": (0.5, stats.t(1.6).ppf(LEVELS)),
    "two-point": (1.0, np.where(LEVELS > 0.998, 20.0, 0.0)),
    "Pareto(1.6)": (0.5, stats.pareto(1.6).ppf(LEVELS)),
}
ORACLES = {"hvt_ucb": HvtOracle, "crtm": CrtmOracle, "crmm": CrmmOracle}


def problem(noise="t(1.6)", arms=ARMS, unit=1.0):
    epsilon, residuals = NOISES[noise]
    return lb.LinearBandit(arms, unit * THETA, lb.noise.Empirical(unit * residuals), epsilon=epsilon)


def changing(noise="t(1.6)"):
    """Arms that turn with the pull, and all their sets, [T, K, d]."""
    epsilon, residuals = NOISES[noise]
    steps = np.arange(1, HORIZON + 1)[:, None] * 0.7 + 2.0 * np.pi * np.arange(5) / 5
    sets = np.stack([np.cos(steps), np.sin(steps), 0.5 * np.cos(3.0 * steps)], axis=-1)
    law = lb.noise.Empirical(residuals)
    return lb.LinearBandit.from_contexts(sets, THETA[:3], law, epsilon=epsilon), sets


def constants_of(bandit, radius_scale, **known):
    """What a policy is told, the moments from the residuals themselves."""
    p, residuals = 1.0 + bandit.epsilon, bandit.noise.residuals
    central = float(np.mean(np.abs(residuals) ** p))
    means = [-bandit.mean_bound, bandit.mean_bound] if bandit.means is None else bandit.means
    return LaterConstants(
        HORIZON,
        float(np.linalg.norm(bandit.theta_star)),
        epsilon=bandit.epsilon,
        radius_scale=radius_scale,
        central_moment_bound=central,
        raw_moment_bound=max(float(np.mean(np.abs(mean + residuals) ** p)) for mean in means),
        arm_norm=bandit.arm_norm,
        quantile=(4.0 * central) ** (1.0 / p),
        **known,
    )


def run(name, bandit, scale=1.0, **options) -> Any:
    if name == "crmm":
        options["assume_symmetric"] = True
    policy, params = lb.make_policy(name, bandit, horizon=HORIZON, radius_scale=scale, **options)
    result = lb.simulate(
        policy, params, bandit, horizon=HORIZON, num_seeds=SEEDS, block_size=SEEDS, key=jax.random.key(0),
        trace=True, coverage=True, dtype="float64",
    )  # fmt: skip
    assert not result.health.any()
    return result


def assert_oracle(oracle, result, seeds=2):
    for seed in range(seeds):
        assert_replays(oracle, result.trace.arms[seed], result.trace.payoffs[seed], result.final_estimate[seed])


# Replays


@pytest.mark.parametrize("name", ORACLES)
def test_replay_of_a_fixed_set(name):
    heavy, light = problem("t(1.6)"), problem("t(2.1)")
    for bandit, scale in ((heavy, 1.0), (heavy, 0.03), (light, 0.1)):
        assert_oracle(ORACLES[name](ARMS, constants_of(bandit, scale)), run(name, bandit, scale))
    if name == "hvt_ucb":
        capped = run(name, heavy, 0.03, no_cap=False, clip_scale=0.4, ridge=0.5)
        oracle = HvtOracle(ARMS, constants_of(heavy, 0.03, ridge=0.5), no_cap=False, clip_scale=0.4)
        assert oracle.ridge == 0.5
        assert oracle.cap < np.max(np.sum(ARMS**2, axis=1)) / 0.5  # so that the first pulls are capped
        assert_oracle(oracle, capped)


@pytest.mark.parametrize("name", ORACLES)
def test_replay_of_changing_sets(name):
    bandit, sets = changing()
    told = constants_of(bandit, 0.05)
    told = dataclasses.replace(told, raw_moment_bound=bandit.raw_moment_bound)
    assert_oracle(ORACLES[name](sets, told), run(name, bandit, 0.05))
    if name == "hvt_ucb":
        assert_oracle(HvtOracle(sets, told, no_cap=False), run(name, bandit, 0.05, no_cap=False))


# What a replay cannot see


def test_golden_values():
    # d = 2, T = 1000, lambda = D = S = c = 1, delta = .1; b = 2
    known = {"dim": 2, "delta": 0.1, "ridge": 1.0, "arm_norm": 1.0}
    expected = {
        1.0: (2.037231, 5.703349, 35.80752, 44.48745, 28.76361),
        0.5: (5.365658, 6.057910, 98.37530, 39.93511, 69.34382),
    }
    for epsilon, (move, factor, beta, ridge, beta_there) in expected.items():
        told = {"central_moment_bound": 1.0, "epsilon": epsilon}
        unit = {"delta": 0.1, "epsilon": epsilon, "theta_norm": 1.0}
        t0 = theory.hvt_move(1000, **told, **known)
        assert t0 == pytest.approx(move, rel=5e-7)
        assert theory.hvt_factor(delta=0.1, epsilon=epsilon) == pytest.approx(factor, rel=5e-7)
        assert theory.hvt_radius(move=t0, ridge=1.0, **unit) == pytest.approx(beta, rel=5e-7)
        found = theory.hvt_uncapped_ridge(1000, dim=2, arm_norm=1.0, central_moment_bound=1.0, **unit)
        assert found == pytest.approx(ridge, rel=5e-7)
        t0 = theory.hvt_move(1000, **told, **{**known, "ridge": found})
        assert theory.hvt_radius(move=t0, ridge=found, **unit) == pytest.approx(beta_there, rel=5e-7)
    assert theory.log_det_bound(1000, dim=2, ridge=1.0, arm_norm=1.0) == pytest.approx(12.433212, rel=1e-7)
    assert theory.hvt_cap(move=2.037231, radius=35.80752) == pytest.approx(0.02844696, rel=1e-6)
    assert theory.hvt_cap(move=0.0, radius=0.0) == 0
    for epsilon, level, beta in ((1.0, 2.881079, 45.33852), (0.5, 8.517452, 132.07977)):
        told = {"raw_moment_bound": 2.0, "epsilon": epsilon}
        assert theory.crtm_level(1000, **told, **known) == pytest.approx(level, rel=5e-7)
        assert theory.crtm_radius(1000, theta_norm=1.0, **told, **known) == pytest.approx(beta, rel=5e-7)
    assert theory.crmm_schedule(10_000, delta=0.1) == (19, 526)
    for horizon, delta in ((5, 0.1), (300, 0.01), (10_000, 1e-6)):
        assert theory.crmm_schedule(horizon, delta=delta).pulls == crmm_pulls(horizon, delta)
    assert theory.crmm_quantile(central_moment_bound=2.0, epsilon=0.5) == pytest.approx(4.0)


def test_a_smaller_clip_scale_pays_for_heavy_tails_alone():
    # The scales that make C s t0 l smallest at delta = .1, and what they gain
    for epsilon, scale, gain in ((1.0, 0.72, 0.03), (0.5, 0.27, 0.20), (0.2, 0.05, 0.46)):
        known = {"delta": 0.1, "epsilon": epsilon}
        ratio = scale * theory.hvt_factor(clip_scale=scale, **known) / theory.hvt_factor(**known)
        assert ratio == pytest.approx(1 - gain, abs=0.006)


def stepped(policy, params, arms, payoffs, indices):
    """States before and after every update, the arms forced."""
    update = jax.jit(policy.update)
    params = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), params)
    state = policy.init(arms, params)
    for index, payoff in zip(indices, payoffs, strict=True):
        after = update(state, arms, index, jnp.full(policy.pulls_per_epoch, payoff), params)
        yield state, after
        state = after


PAYOFFS = [1e200, math.inf, 0.3, -math.inf, -1e200, *(30 * RNG.standard_t(1.5, size=25))]


@pytest.mark.parametrize("no_cap", [True, False])
def test_one_payoff_moves_hvt_ucb_by_t0_at_most_and_no_arm_enters_wider_than_the_cap(no_cap):
    policy, params = lb.make_policy("hvt_ucb", problem(), horizon=HORIZON, no_cap=no_cap, ridge=0.1)
    facts = dict(policy.about.facts)
    arms = jnp.asarray(np.concatenate([ARMS[:-1], np.zeros((1, 4))]))
    indices = RNG.integers(0, 12, size=len(PAYOFFS))
    indices[:3] = 0, 1, 11  # payoffs beyond all bounds, and an arm of zeros
    moves, weights = [], []
    for before, after in stepped(policy, params, arms, PAYOFFS, indices):
        gram = params.ridge * np.eye(4) + np.asarray(arms.T) @ np.diag(after.design.counts) @ np.asarray(arms)
        old, new = (policy.region(state, arms, params).center for state in (before, after))
        moves.append(math.sqrt((new - old) @ gram @ (new - old)))
        entered = after.design.counts - before.design.counts
        weights.append(float(jnp.sum(entered)))
        assert float(jnp.max(entered * before.design.squared_widths)) <= facts["cap"] * (1 + 1e-9)
        assert bool(policy.finite(after))
    assert max(moves) == pytest.approx(facts["t0"], rel=1e-9)
    assert (min(weights) > 1 - 1e-9) == no_cap
    assert max(weights) <= 1 + 1e-12


def test_what_crtm_keeps_is_bounded_and_the_rest_is_dropped():
    policy, params = lb.make_policy("crtm", problem(), horizon=HORIZON)
    level = dict(policy.about.facts)["G"]
    arms = jnp.asarray(np.concatenate([ARMS[:-1], np.zeros((1, 4))]))
    indices = RNG.integers(0, 11, size=len(PAYOFFS))
    indices[:2] = 0, 11
    kept = []
    for (before, after), payoff, index in zip(
        stepped(policy, params, arms, PAYOFFS, indices), PAYOFFS, indices, strict=True
    ):
        width = math.sqrt(after.design.squared_widths[index])
        added = np.asarray(after.moments - before.moments)
        kept.append(bool(np.any(added != 0)))
        assert kept[-1] == (index != 11 and abs(payoff) * width <= level)
        assert math.sqrt(added @ np.asarray(after.design.inverse) @ added) <= level * (1 + 1e-12)
        assert bool(policy.finite(after))
    assert 0 < sum(kept) < len(kept) - 4


def test_without_clipping_both_are_ridge_regression():
    bandit = problem()
    for name, moment in (("hvt_ucb", "central_moment_bound"), ("crtm", "raw_moment_bound")):
        result = run(name, bandit, 1e-140, **{moment: 1e200})  # nothing is ever as large as the level
        for seed in range(2):
            features = ARMS[result.trace.arms[seed]]
            gram = features.T @ features + result.params.ridge * np.eye(4)
            estimate = np.linalg.solve(gram, features.T @ result.trace.payoffs[seed])
            np.testing.assert_allclose(result.final_estimate[seed], estimate, rtol=1e-12, atol=1e-12)


def test_medians_of_one_payoff_are_oful():
    scale, payoffs, indices = 1.5, RNG.normal(size=30), RNG.integers(0, 12, size=30)
    bandit = lb.LinearBandit(ARMS, THETA, lb.noise.Gaussian(scale))
    _, params = lb.make_policy("crmm", bandit, horizon=HORIZON, delta=0.2, quantile=scale)
    _, as_oful = lb.make_policy("oful", bandit, horizon=HORIZON, delta=0.1)
    arms = jnp.asarray(ARMS)
    mine = list(stepped(crmm(FixedSet(4), pulls=1), params, arms, payoffs, indices))[-1][1]
    theirs = list(stepped(oful(FixedSet(4)), as_oful, arms, payoffs, indices))[-1][1]
    np.testing.assert_array_equal(mine.image, theirs.image)
    regions = [p.region(s, arms, q) for p, s, q in (
        (crmm(FixedSet(4), pulls=1), mine, params), (oful(FixedSet(4)), theirs, as_oful)
    )]  # fmt: skip
    assert float(regions[0].radius) == pytest.approx(float(regions[1].radius), rel=1e-14)


# Properties


@pytest.mark.parametrize("name", ORACLES)
def test_the_unit_of_the_payoffs_and_the_order_of_the_arms_do_not_matter(name):
    plain = run(name, problem(), 0.03)
    larger = run(name, problem(unit=8.0), 0.03)
    np.testing.assert_array_equal(larger.trace.arms, plain.trace.arms)
    np.testing.assert_allclose(larger.final_estimate, 8.0 * plain.final_estimate, rtol=1e-9)
    assert np.unique(plain.trace.arms).size > 3
    order = np.random.default_rng(1).permutation(12)
    turned = run(name, problem(arms=ARMS[order]), 0.03)
    np.testing.assert_array_equal(order[turned.trace.arms], plain.trace.arms)


@pytest.mark.parametrize("name", ORACLES)
def test_literal_regions_hold_theta_star(name):
    for noise in NOISES:
        if name == "crmm" and noise not in ("t(2.1)", "t(1.6)"):
            continue
        for scale in (1.0, 1e-9):  # plain play, and play that is nearly greedy: the region is the literal one again
            result = run(name, problem(noise), scale)
            assert np.max(result.coverage.worst_ratio) * scale < 1


def test_the_regret_of_medians_grows_slower_under_noise_without_a_mean():
    levels = (np.arange(10_000) + 0.5) / 10_000
    cauchy = lb.noise.Empirical(stats.cauchy.ppf(levels))
    bandit = lb.LinearBandit(ARMS, THETA, cauchy, epsilon=0.1)
    policy, params = lb.make_policy(
        "crmm", bandit, horizon=16_000, quantile=2.5, assume_symmetric=True, radius_scale=0.1
    )
    result = lb.simulate(
        policy, params, bandit, horizon=16_000, num_seeds=16, block_size=16, key=jax.random.key(0),
        num_records=16, dtype="float64",
    )  # fmt: skip
    at = list(result.rounds).index(4_000)
    regret = np.mean(result.regret, axis=0)
    assert math.log(regret[-1] / regret[at]) / math.log(4) < 0.7


# The ridge without a cap


def test_no_ridge_is_found_where_there_is_none():
    # 2 D S l^{1/p} = 3.46 < (c T)^{1/p} = 3.16 fails: the user's ridge, and a note
    quiet = lb.LinearBandit(np.eye(2), [1.0, 0.0], lb.noise.Gaussian(0.1))
    policy, params = lb.make_policy("hvt_ucb", quiet, horizon=1_000, ridge=3.0)
    assert params.ridge == 3.0
    assert policy.about.notes == ("hvt_ucb caps its weights at ridge=3: no ridge makes all of them 1",)
    assert lb.make_policy("hvt_ucb", quiet, horizon=1_200, ridge=3.0)[1].ridge == 3.0  # there is one, too far away
    few = lb.LinearBandit(np.eye(2), [1.0, 0.0], lb.noise.Gaussian(5.0))
    policy, params = lb.make_policy("hvt_ucb", few, horizon=20)
    assert policy.about.notes == (f"hvt_ucb's ridge, {params.ridge:.3g}, weighs more than all 20 pulls",)
    policy, params = lb.make_policy("hvt_ucb", quiet, horizon=2_000, ridge=3.0)
    facts = dict(policy.about.facts)
    assert facts["lambda"] == params.ridge != 3.0
    assert 1 / params.ridge == pytest.approx(facts["cap"], rel=1e-11)
    assert lb.make_policy("hvt_ucb", quiet, horizon=2_000, ridge=3.0, no_cap=False)[1].ridge == 3.0


def test_fresh_instances_have_radii_of_their_own():
    def generator(key):
        theta = jax.random.normal(key, (2,))
        return jnp.eye(2), theta / (1 + jnp.abs(theta[0]))

    fresh = lb.LinearBandit.resampled(generator, lb.noise.StudentT(3.0), mean_bound=5.0)
    with pytest.raises(ValueError, match=r"arm_norm=inf: the bandit has no finite one; give the policy arm_norm"):
        lb.make_policy("crtm", fresh, horizon=50)
    policy, params = lb.make_policy("hvt_ucb", fresh, horizon=50, arm_norm=1.0)
    assert params.ridge == 1.0
    assert "beta" not in dict(policy.about.facts)
    result = lb.simulate(
        policy, params, fresh, horizon=50, num_seeds=4, block_size=4, key=jax.random.key(0), coverage=True,
        dtype="float64",
    )  # fmt: skip
    assert not result.health.any()
    assert 0 < np.max(result.coverage.worst_ratio) < 1


# Refusals


def test_noise_that_may_not_be_symmetric_is_refused():
    message = (
        r"assume_symmetric=False: crmm needs noise that is symmetric about 0, which this bandit's {}; must be True"
    )
    with pytest.raises(ValueError, match=message.format("is not")):
        lb.make_policy("crmm", lb.dataset("S3"), horizon=HORIZON)
    mixed = lb.noise.Mixture([lb.noise.StudentT(3.0), lb.noise.CenteredPareto(2.5)], [1, 1])
    unknown = lb.LinearBandit(ARMS, THETA, mixed, epsilon=1.0)
    with pytest.raises(ValueError, match=message.format("may not be")):
        lb.make_policy("crmm", unknown, horizon=HORIZON)
    policy, params = lb.make_policy("crmm", unknown, horizon=HORIZON, assume_symmetric=True)
    assert policy.about.notes == ("crmm assumes symmetric noise, which this bandit's may not be",)
    assert lb.make_policy("crmm", lb.dataset("S1"), horizon=HORIZON)[0].about.notes == ()
    with pytest.raises(ValueError, match="assume_symmetric='yes': must be True or False"):
        lb.make_policy("crmm", lb.dataset("S1"), horizon=HORIZON, assume_symmetric="yes")
    with pytest.raises(ValueError, match="delta=0.001, horizon=600: they need r=23 pulls an epoch"):
        policy.about.check(params._replace(delta=0.001))
    with pytest.raises(ValueError, match="pulls=4: must be odd"):
        crmm(FixedSet(2), pulls=4)
    with pytest.raises(ValueError, match=r"horizon=4: crmm at delta=0.1 needs at least 5 pulls"):
        lb.make_policy("crmm", lb.dataset("S1"), horizon=4)


def test_laws_say_whether_they_are_symmetric():
    class Shifted(lb.noise.StudentT):
        """A law of a user's own."""

    laws = {
        lb.noise.StudentT(3.0): True, lb.noise.Gaussian(): True, lb.noise.SymmetricPareto(2.0): True,
        lb.noise.TwoPointNoise(1.0): True, lb.noise.TwoPointNoise(2.0): False, lb.noise.Pareto(2.0): False,
        lb.noise.CenteredPareto(2.0): False, lb.noise.LogNormal(1.0): False, lb.noise.TwoPoint(9.0): False,
        lb.noise.Empirical([-1.0, 1.0]): True, Shifted(3.0): None,
    }  # fmt: skip
    for law, symmetric in laws.items():
        assert law.symmetric is symmetric, law
        assert lb.LinearBandit([[1.0]], [0.5], law, epsilon=0.5).symmetric_noise is symmetric


def test_noise_without_a_moment_and_weights_without_room_are_refused():
    with pytest.raises(ValueError, match=r"central_moment_bound=0.0: must be positive for hvt_ucb"):
        lb.make_policy("hvt_ucb", problem(), horizon=HORIZON, central_moment_bound=0)
    policy, params = lb.make_policy("hvt_ucb", problem(), horizon=HORIZON)
    with pytest.raises(ValueError, match=r"central_moment_bound=0.0: must be positive for hvt_ucb"):
        policy.about.check(params._replace(central_moment_bound=0.0))
    for field in ("clip_scale", "arm_norm"):
        with pytest.raises(ValueError, match=rf"{field}=-1: must be"):
            lb.make_policy("hvt_ucb", problem(), horizon=HORIZON, **{field: -1})
    design, arms = FixedSet(4), jnp.asarray(ARMS)
    state = design.init(arms, jnp.ones(()))
    with pytest.raises(ValueError, match=r"weight: this design counts whole pulls; with_weights\(\)"):
        design.add(state, arms, 0, jnp.ones(()))
    _, step = design.with_weights().add(design.with_weights().init(arms, jnp.ones(())), arms, 2)
    np.testing.assert_allclose(step, design.add(state, arms, 2)[1], rtol=1e-15)
    assert AnySets(4).with_weights() == AnySets(4)
    assert hvt_ucb(design) == hvt_ucb(FixedSet(4))
