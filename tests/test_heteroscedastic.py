"""Noise whose scale is revealed: the law, who is shown the scale, and the policies that use it."""

import dataclasses
import itertools
import math
import pickle
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import assert_replays
from oracles_later import HeavyOfulOracle, HvtOracle, LaterConstants, ScaledHvtOracle
from scipy import integrate, stats
from test_later_ridge import ARMS, HORIZON, PAYOFFS, SEEDS, THETA
from test_noise import ks_p_value
from traces import compiled_quickly

import linbet_jax as lb
from linbet_jax.noise import (
    CenteredPareto,
    Custom,
    Empirical,
    EmpiricalPerArm,
    Gaussian,
    Heteroscedastic,
    Mixture,
    Pareto,
    Spikes,
    StudentT,
    TwoPoint,
)

# Nearly every program runs once, and briefly.
quick_compiles = pytest.fixture(autouse=True, scope="module")(compiled_quickly)

KEY = jax.random.key(0)
WIDE = Heteroscedastic(StudentT(2.1), 2.0)


def key_of(seed):
    """Of a seed's noise."""
    return jax.random.fold_in(jax.random.fold_in(KEY, seed), 0)


def drawn(law, seed):
    key = key_of(seed)
    draws = lb.noise.variates(law, key, jnp.float64), lb.noise.scales(law, key, jnp.float64)
    return [draw(jnp.arange(1, HORIZON + 1)) for draw in draws]


DRAWN = jax.jit(drawn), jax.jit(drawn, static_argnums=0)


def revealed(law, seed, pulls=HORIZON):
    """Variates and scales that a seed meets, [T] each."""
    return [np.asarray(one)[:pulls] for one in DRAWN[not lb.noise.traceable(law)](law, seed)]


# The law


@pytest.mark.parametrize(
    ("noise", "places"),
    [
        (StudentT(2.1), ()),
        (StudentT(1.6, scale=2.0), ()),
        (CenteredPareto(1.8), (-1.25,)),  # where the noise begins
        (Spikes(30.0, 0.01), (30.0, -30.0 / 99.0)),  # all of it
    ],
    ids=["t(2.1)", "t(1.6)", "centered Pareto", "spikes"],
)
def test_moments_and_cdf_are_those_of_the_noise_over_all_scales(noise, places):
    law = Heteroscedastic(noise, 1.5)
    rate = 1.5 * math.log(10.0)

    def over_scales(function, noise):
        """E function(scale) by adaptive quadrature, told at which scale this much noise is one of the places."""
        inside = (math.log10(noise / place) / 1.5 for place in places if noise / place > 0.0)
        ends = [0.0, *sorted(u for u in inside if 0.0 < u < 1.0), 1.0]
        parts = itertools.pairwise(ends)
        return sum(integrate.quad(lambda u: function(10.0 ** (1.5 * u)), *part, epsrel=1e-11)[0] for part in parts)

    for order in (1.2, 1.5, *([2.0] if noise.max_order > 2.0 else [])):
        grown = (math.exp(order * rate) - 1.0) / (order * rate)
        assert law.central_moment(order, 0.7) == pytest.approx(grown * noise.central_moment(order), rel=1e-13)
        assert law.unit_moment(order) == noise.central_moment(order)
        for mean in (-3.0, 0.4):
            expected = over_scales(lambda s, m=mean, p=order: s**p * noise.raw_moment(p, m / s), -mean)
            assert law.raw_moment(order, mean) == pytest.approx(expected, rel=1e-10)
    for x in (-4.0, 0.9, 60.0):
        expected = over_scales(lambda s, y=x: noise.cdf((y - 0.4) / s), x - 0.4)
        assert law.cdf(x, 0.4) == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(law.raw_moment(1.5, [0.4, -3.0])[1], law.raw_moment(1.5, -3.0), rtol=1e-14)
    assert law.raw_moment(1.5, 0.0) == pytest.approx(law.central_moment(1.5), rel=1e-12)


def test_without_a_spread_it_is_the_law_itself():
    noise = StudentT(1.6, scale=2.0)
    law = Heteroscedastic(noise, 0)
    for value in (
        lambda law: law.raw_moment(1.5, [0.4, -3.0]),
        lambda law: law.central_moment(1.5),
        lambda law: law.cdf([0.7, 3.0], 0.5),
        lambda law: law.moment_bounds(1.5, -1.0, 2.0),
        lambda law: law.exceeded(0.25),
        lambda law: law.sample(KEY, 0.3, (50,), jnp.float64),
    ):
        np.testing.assert_allclose(value(law), value(noise), rtol=1e-12)
    np.testing.assert_array_equal(revealed(law, 0)[1], 1.0)


def test_samples_follow_the_cdf_and_their_scales_are_those_that_are_revealed():
    sample, scales = (np.concatenate(one) for one in zip(*(revealed(WIDE, seed) for seed in range(8)), strict=True))
    assert ks_p_value(sample, WIDE.cdf) > 1e-3
    assert stats.kstest(np.log10(scales) / 2.0, "uniform").pvalue > 1e-3
    indices = jnp.arange(HORIZON, 0, -1)

    @jax.jit
    def again(key):
        coarse = lb.noise.scales(WIDE, key, jnp.float32)(indices)
        return StudentT(2.1).stream(key, jnp.float64)(indices), lb.noise.scales(WIDE, key, jnp.float64)(indices), coarse

    steady, same, coarse = again(key_of(0))
    # The same key draws the same noise under every spread.
    np.testing.assert_allclose(sample[:HORIZON][::-1], same * steady, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(same, scales[:HORIZON][::-1], rtol=1e-14)
    assert coarse.dtype == np.float32
    np.testing.assert_allclose(coarse, same, rtol=2e-6)
    ranks = stats.rankdata(scales), stats.rankdata(np.abs(sample / scales))
    assert abs(np.corrcoef(*ranks)[0, 1]) < 5 / math.sqrt(scales.size)


def test_it_is_a_value_and_says_what_its_noise_says():
    for noise in (StudentT(2.1), Mixture([Gaussian(), StudentT(2.5)], [1, 1]), Empirical([-1.0, 3.0])):
        law = Heteroscedastic(noise, 2.0)
        assert pickle.loads(pickle.dumps(law)) == law == jax.tree.map(lambda leaf: leaf, law)
        assert hash(law) == hash(Heteroscedastic(noise, 2)) != hash(Heteroscedastic(noise, 1.0))
        assert lb.noise.traceable(law)
        assert (law.max_order, law.symmetric, law.mean_range) == (noise.max_order, noise.symmetric, noise.mean_range)
    assert WIDE.name == "10^U(0, 2) Student t(2.1)"
    assert eval(repr(WIDE), vars(lb.noise)) == WIDE
    assert WIDE.std(1.0) == pytest.approx(math.sqrt(WIDE.central_moment(2.0)))
    size = WIDE.exceeded(0.25)
    assert WIDE.cdf(-size) + 1.0 - WIDE.cdf(size) == pytest.approx(0.25, rel=1e-9)
    mixed = Mixture([WIDE, Gaussian()], [1, 3])  # a law, which reveals nothing
    assert mixed.central_moment(1.5) == pytest.approx(
        0.25 * WIDE.central_moment(1.5) + 0.75 * Gaussian().central_moment(1.5)
    )
    assert lb.noise.reveals_scales(WIDE)
    for silent in (mixed, StudentT(2.1), Doubled(StudentT(2.1), 2.0)):
        assert not lb.noise.reveals_scales(silent)
        with pytest.raises(ValueError, match=f"law {re.escape(silent.name)}: reveals no scales"):
            lb.noise.scales(silent, KEY)


class Own:
    """Noise of a user's own that reveals its scale, drawn key by key; it says no moments."""

    name, max_order, mean_range = "own", math.inf, (-math.inf, math.inf)

    def scale(self, key, dtype):
        return 1.0 + jax.random.uniform(jax.random.fold_in(key, 1), dtype=lb.noise.float_dtype(dtype))

    def standard(self, key, dtype=None):
        return self.scale(key, dtype) * jax.random.normal(key, dtype=lb.noise.float_dtype(dtype))

    def scales(self, key, dtype=None):
        return jax.vmap(lambda index: self.scale(jax.random.fold_in(key, index), dtype))

    def payoff(self, standard, mean):
        return mean + standard


class Doubled(Heteroscedastic):
    """Draws in another way, so that the scales are not its own."""

    def transform(self, words, dtype):
        return 2.0 * super().transform(words, dtype)


OWN = lb.LinearBandit(ARMS, THETA, Own(), raw_moment_bound=9.0, central_moment_bound=4.0)


def test_a_bandit_says_the_moment_over_the_scale_where_its_law_does():
    bandit = problem(WIDE)
    assert bandit.unit_moment_bound == StudentT(2.1).central_moment(2.0)
    assert bandit.central_moment_bound == pytest.approx(bandit.unit_moment_bound * (10**4 - 1) / (4 * math.log(10)))
    assert problem(StudentT(2.1)).unit_moment_bound is None
    assert problem(Doubled(StudentT(2.1), 2.0)).unit_moment_bound is None
    assert OWN.unit_moment_bound == math.inf

    class Small(Own):
        def scales(self, key, dtype=None):
            return lambda indices: jnp.where(indices < 2, 0.5, 3.0)

    np.testing.assert_array_equal(lb.noise.scales(Small(), KEY)(jnp.arange(4)), [1.0, 1.0, 3.0, 3.0])  # 1 at least

    class Ragged(Own):
        def scales(self, key, dtype=None):
            return lambda indices: jnp.ones(2)

    with pytest.raises(ValueError, match=r"Ragged.scales must give one real number for each index"):
        lb.LinearBandit(ARMS, THETA, Ragged(), raw_moment_bound=9.0, central_moment_bound=4.0)


@pytest.mark.parametrize(
    ("noise", "spread", "message"),
    [
        (Pareto(2.0), 1.0, r"noise must add the same noise to every mean, got Pareto\(2\)"),
        (TwoPoint(3.0), 1.0, "noise must add the same noise to every mean, got two-point"),
        (EmpiricalPerArm([0.0, 1.0], [[1.0, -1.0]] * 2), 1.0, "noise must add the same noise to every mean, got empir"),
        (Own(), 1.0, "noise must be a law of linbet_jax.noise, got "),
        (2.0, 1.0, "noise must be a law of linbet_jax.noise, got 2.0"),
        (Gaussian(), -0.1, "spread must be a number with 0 <= spread <= 30, got -0.1"),
        (Gaussian(), 31, "spread must be a number with 0 <= spread <= 30, got 31"),
        (Gaussian(), math.nan, "spread must be a number with 0 <= spread <= 30, got nan"),
        (Gaussian(), True, "spread must be a number with 0 <= spread <= 30, got True"),
        (Gaussian(), "2", "spread must be a number with 0 <= spread <= 30, got '2'"),
    ],
)
def test_a_wrong_law_is_refused(noise, spread, message):
    with pytest.raises(ValueError, match=f"Heteroscedastic: {message}"):
        Heteroscedastic(noise, spread)


# Who is shown the scales


def problem(law, arms=ARMS, unit=1.0):
    return lb.LinearBandit(arms, unit * THETA, law, epsilon=min(1.0, round(law.max_order - 1.1, 1)))


def adder(pulls):
    """A policy whose state, and estimate of theta*, is the sum of the scales by their place in an epoch."""
    return lb.Policy(
        name="adder",
        init=lambda arms, params: jnp.zeros(pulls),
        select=lambda key, state, arms, params: 0,
        update=lb.policies.SeesScale(lambda state, arms, index, payoffs, scales, params: state + scales),
        pulls_per_epoch=pulls,
        region=lambda state, arms, params: lb.Region(state),
    )


def test_the_scales_of_a_pull_come_with_its_payoff():
    law = Own()
    bandit = lb.LinearBandit(np.eye(4), np.zeros(4), law, raw_moment_bound=9.0, central_moment_bound=4.0)
    run = lb.simulate(
        adder(4), {}, bandit, horizon=150, num_seeds=2, block_size=2, key=KEY, trace=True, dtype="float64"
    )
    for seed in range(2):
        variates, scales = revealed(law, seed, 150)
        np.testing.assert_allclose(run.final_estimate[seed], scales[:148].reshape(37, 4).sum(axis=0), rtol=1e-13)
        np.testing.assert_allclose(run.trace.payoffs[seed], variates, rtol=1e-12)


def test_who_needs_scales_is_refused_where_there_are_none():
    steady, wide = problem(StudentT(2.1)), problem(WIDE)
    message = "bandit=custom: policy adder sees the scale of each payoff, and {} noise reveals none"
    for bandit in (steady, problem(Doubled(StudentT(2.1), 2.0))):
        with pytest.raises(ValueError, match=message.format(".*Student t.2.1.")):
            lb.simulate(adder(4), {}, bandit, horizon=9, num_seeds=1, key=KEY)
    for name in ("hvt_ucb", "heavy_oful"):
        with pytest.raises(ValueError, match=f"heteroscedastic=True: {name} then sees the scale of each payoff"):
            lb.make_policy(name, steady, horizon=50, heteroscedastic=True, central_moment_bound=2.0)
        with pytest.raises(ValueError, match="heteroscedastic=1: must be True or False"):
            lb.make_policy(name, wide, horizon=50, heteroscedastic=1)
        with pytest.raises(ValueError, match="central_moment_bound=inf: this bandit's law has no unit_moment"):
            lb.make_policy(name, OWN, horizon=50, heteroscedastic=True)
        told = lb.make_policy(name, OWN, horizon=50, heteroscedastic=True, central_moment_bound=1.0)[1]
        assert told.central_moment_bound == 1.0
        policy, params = lb.make_policy(name, wide, horizon=50, heteroscedastic=True)
        assert policy.sees_scales
        assert params.central_moment_bound == wide.unit_moment_bound
        assert not lb.make_policy(name, wide, horizon=50)[0].sees_scales
        with pytest.raises(ValueError, match=f"policy {name}: sees the scales of its payoffs, which a bystander"):
            lb.policies.bystander(policy, params)
        with pytest.raises(ValueError, match=f"policy {name}: sees the scales of its payoffs, which a median"):
            lb.policies.mean_of_medians(policy, groups=3)
    with pytest.raises(ValueError, match="policy adder: update does not fit 12 arms of dimension 4, 3 pulls per epoch"):
        lb.simulate(adder(4)._replace(pulls_per_epoch=3), {}, wide, horizon=9, num_seeds=1, key=KEY, dtype="float64")


# The policies that use them


def told(bandit, scale, **known):
    """What a policy is told: the moment over the scale is that of t times a factor."""
    noise, p = bandit.noise.noise, 1.0 + bandit.epsilon
    gammas = math.gamma((p + 1.0) / 2.0) * math.gamma((noise.df - p) / 2.0) / math.gamma(noise.df / 2.0)
    return LaterConstants(
        HORIZON,
        float(np.linalg.norm(bandit.theta_star)),
        epsilon=bandit.epsilon,
        radius_scale=scale,
        central_moment_bound=noise.scale**p * noise.df ** (p / 2.0) * gammas / math.sqrt(math.pi),
        arm_norm=bandit.arm_norm,
        **known,
    )


def run(bandit, scale=1.0, name="hvt_ucb", horizon=HORIZON, **options):
    policy, params = lb.make_policy(
        name, bandit, horizon=horizon, radius_scale=scale, **{"heteroscedastic": True, **options}
    )
    result = lb.simulate(
        policy, params, bandit, horizon=horizon, num_seeds=SEEDS, block_size=SEEDS, key=KEY,
        trace=True, coverage=True, dtype="float64",
    )  # fmt: skip
    assert not result.health.any()
    return result


def in_papers_units(constants, ridge):
    """The constants with lambda in 1/payoffs^2, and sigma_min: the noise at scale 1."""
    least = constants.central_moment_bound ** (1.0 / constants.power)
    return dataclasses.replace(constants, ridge=ridge / least**2), least


def assert_scaled_oracle(arms, constants, law, result, seeds=1):
    constants, least = in_papers_units(constants, result.params.ridge)
    for seed in range(seeds):
        oracle = ScaledHvtOracle(arms, constants, scales=revealed(law, seed)[1], sigma_min=least)
        assert_replays(oracle, result.trace.arms[seed], result.trace.payoffs[seed], result.final_estimate[seed])
        assert oracle.radius * least == pytest.approx(result.params.radius_scale * radius_of(result), rel=1e-9)


def radius_of(result):
    """The literal radius that the policy names."""
    return result.facts["beta"]


HEAVY = Heteroscedastic(StudentT(1.6), 2.0)


def test_replay_of_a_fixed_set():
    for law, scale in ((WIDE, 0.3), (HEAVY, 0.1), (HEAVY, 1.0)):
        bandit = problem(law)
        result = run(bandit, scale)
        assert np.unique(result.trace.arms[:2]).size > 3
        assert_scaled_oracle(ARMS, told(bandit, scale), law, result)
    capped = run(bandit, 0.1, no_cap=False, ridge=0.5)
    assert capped.params.ridge == 0.5
    assert capped.facts["cap"] < np.max(np.sum(ARMS**2, axis=1)) / 0.5  # so that the first pulls are capped
    assert_scaled_oracle(ARMS, told(bandit, 0.1), law, capped)


def test_replay_of_changing_sets():
    steps = np.arange(1, HORIZON + 1)[:, None] * 0.7 + 2.0 * np.pi * np.arange(5) / 5
    sets = np.stack([np.cos(steps), np.sin(steps), 0.5 * np.cos(3.0 * steps)], axis=-1)
    bandit = lb.LinearBandit.from_contexts(sets, THETA[:3], WIDE)
    assert_scaled_oracle(sets, told(bandit, 0.05), WIDE, run(bandit, 0.05))


def test_scales_of_one_are_the_plain_form():
    bandit = problem(Heteroscedastic(StudentT(1.6), 0.0))
    shown, plain = run(bandit, 0.1), run(bandit, 0.1, heteroscedastic=False)
    assert shown.params == plain.params
    np.testing.assert_array_equal(shown.trace.arms, plain.trace.arms)
    np.testing.assert_allclose(shown.final_estimate, plain.final_estimate, rtol=1e-10)
    # The papers' form at the plain ridge over c^(2/p), both from their own pseudocode.
    constants = told(bandit, 0.1)
    scaled, least = in_papers_units(constants, plain.params.ridge)
    one = HvtOracle(ARMS, constants)
    other = ScaledHvtOracle(ARMS, scaled, scales=np.ones(HORIZON), sigma_min=least)
    both = (oracle.replay(plain.trace.arms[0], plain.trace.payoffs[0]) for oracle in (one, other))
    for (ours, _), (theirs, _) in zip(*both, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    assert (one.radius, one.t0) == pytest.approx((least * other.radius, least * other.t0), rel=1e-12)


def test_the_unit_of_the_payoffs_does_not_matter():
    plain = run(problem(WIDE), 0.3)
    larger = run(problem(Heteroscedastic(StudentT(2.1, scale=8.0), 2.0), unit=8.0), 0.3)
    assert larger.params.ridge == pytest.approx(plain.params.ridge, rel=1e-12)
    np.testing.assert_array_equal(larger.trace.arms, plain.trace.arms)
    np.testing.assert_allclose(larger.final_estimate, 8.0 * plain.final_estimate, rtol=1e-9)
    assert np.unique(plain.trace.arms).size > 3
    # In the papers' units: lambda over q^2, sigma_min times q.
    constants, least = in_papers_units(told(problem(WIDE), 0.3), plain.params.ridge)
    known = {"theta_norm": 8.0 * constants.theta_norm, "central_moment_bound": 64.0 * constants.central_moment_bound}
    times = dataclasses.replace(constants, ridge=constants.ridge / 64.0, **known)
    scales = revealed(WIDE, 0)[1]
    pair = [
        ScaledHvtOracle(ARMS, one, scales=scales, sigma_min=unit * least).replay(
            plain.trace.arms[0], unit * plain.trace.payoffs[0]
        )
        for one, unit in ((constants, 1.0), (times, 8.0))
    ]
    for (ours, _), (theirs, _) in zip(*pair, strict=True):
        np.testing.assert_allclose(8.0 * ours, theirs, rtol=1e-9)


def test_one_payoff_moves_the_estimate_by_t0_at_most_whatever_its_scale():
    arms, random = np.concatenate([ARMS[:-1], np.zeros((1, 4))]), np.random.default_rng(5)
    indices, scales = random.integers(0, 12, size=len(PAYOFFS)), 10.0 ** random.uniform(0.0, 2.0, len(PAYOFFS))
    indices[:3], scales[5:7] = (0, 1, 11), (1.0, 1e30)  # an arm of zeros; 1, and what tells nothing
    update = None
    for no_cap in (True, False):
        known = {"heteroscedastic": True, "no_cap": no_cap, "ridge": 0.1}
        policy, params = lb.make_policy("hvt_ucb", problem(HEAVY), horizon=HORIZON, **known)
        facts, update = dict(policy.about.facts), update or jax.jit(policy.update.function)
        params = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), params)
        state, moves, weights = policy.init(jnp.asarray(arms), params), [], []
        before, counts = np.zeros(4), np.zeros(12)
        for index, payoff, scale in zip(indices, PAYOFFS, scales, strict=True):
            width = float(state.design.squared_widths[index])
            state = update(state, arms, index, jnp.array([payoff]), jnp.array([scale]), params)
            gram = float(params.ridge) * np.eye(4) + arms.T @ np.diag(state.design.counts) @ arms
            after, entered = np.linalg.solve(gram, state.moments), np.asarray(state.design.counts) - counts
            moves.append(math.sqrt((after - before) @ gram @ (after - before)))
            most = min(1.0 / scale**2, facts["cap"] / width if width else math.inf)
            assert entered[index] == pytest.approx(most, rel=1e-7, abs=1e-12)
            weights.append(entered[index] * scale**2)
            assert bool(policy.finite(state))
            before, counts = after, counts + entered
        assert max(moves) == pytest.approx(facts["t0"], rel=1e-9)
        assert (min(weights[:5]) > 0.99) == no_cap


def test_literal_regions_hold_theta_star():
    for law in (WIDE, HEAVY):
        for scale in (1.0, 1e-9):  # plain play, and play that is nearly greedy: the region is the literal one again
            assert np.max(run(problem(law), scale).coverage.worst_ratio) * scale < 1


def test_heavy_oful_is_shown_them_too():
    bandit, pulls = problem(HEAVY), 150
    for moment in (None, 1e-2):  # with a small bound many payoffs are clipped, and change sides
        known = {} if moment is None else {"central_moment_bound": moment}
        result = run(bandit, 0.1, "heavy_oful", pulls, **known)
        constants = dataclasses.replace(told(bandit, 0.1), horizon=pulls, **known)
        oracle = HeavyOfulOracle(ARMS, constants, revealed(HEAVY, 0, pulls)[1])
        assert_replays(oracle, result.trace.arms[0], result.trace.payoffs[0], result.final_estimate[0])
        assert (oracle.clipped > 3) == (moment is not None)


def test_a_quantile_function_of_one_s_own_may_have_scales():
    law = Heteroscedastic(Custom(lambda below, above: jnp.log(below) - jnp.log(above), max_order=math.inf), 1.0)
    assert law.central_moment(2.0) == pytest.approx(math.pi**2 / 3 * 99 / (2 * math.log(10)), rel=1e-9)
    assert np.all(np.isfinite(law.sample(KEY, 0.0, (5,))))
