"""`coverage=True`: first misses and worst ratios against the oracles, and that watching changes nothing."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import Constants, CrtOracle, MenuOracle, MomOracle, OfulOracle, TofuOracle, assert_replays
from traces import compiled_fully, compiled_quickly

import linbet_jax as lb
from linbet_jax.simulation import launches

KEY = jax.random.key(3)
SEEDS = 2
RNG = np.random.default_rng(5)
ARMS, THETA = RNG.uniform(size=(6, 3)), np.array([0.9, 0.2, 0.6])
CASES = {
    "menu": (MenuOracle, 1_400),
    "mom": (MomOracle, 1_500),
    "tofu": (TofuOracle, 200),
    "crt": (CrtOracle, 200),
    "oful": (OfulOracle, 200),
}

quick_compiles = pytest.fixture(autouse=True, scope="module")(compiled_quickly)
optimised = pytest.fixture(compiled_fully)


def problem(epsilon=1.0):
    """t(3) noise with epsilon 1, or Pareto(2) noise with epsilon 1/2."""
    noise = lb.noise.StudentT(3.0) if epsilon == 1.0 else lb.noise.CenteredPareto(2.0)
    return lb.LinearBandit(ARMS, THETA, noise, epsilon=epsilon)


def constants_of(bandit, horizon, scale, theta=THETA):
    return Constants(
        horizon,
        float(np.linalg.norm(theta)),
        epsilon=bandit.epsilon,
        radius_scale=scale,
        raw_moment_bound=bandit.raw_moment_bound,
        central_moment_bound=bandit.central_moment_bound,
        noise_scale=math.sqrt(3.0) if bandit.epsilon == 1.0 else 1.0,
    )


def watched(oracle, played, payoffs, theta):
    """First miss and worst ratio of a recorded run, by the oracle: after each decision that it learns from."""
    miss, worst, pull, seen = 0, 0.0, 0, 0
    lengths = oracle.segments()

    def look():
        nonlocal miss, worst, seen
        if oracle.count > seen:
            seen = oracle.count
            error = oracle.estimate - theta
            distance = math.sqrt(error @ oracle.gram @ error)
            worst = max(worst, distance / oracle.radius)
            if miss == 0 and distance > oracle.radius:
                miss = pull

    for segment, _ in enumerate(oracle.replay(played, payoffs)):
        look()
        pull += lengths[segment]
    look()
    return miss, worst


def simulate(name, bandit, scale, coverage=True):
    horizon = CASES[name][1]
    policy, params = lb.make_policy(name, bandit, horizon=horizon, radius_scale=scale)
    known = {"horizon": horizon, "num_seeds": SEEDS, "block_size": SEEDS, "key": KEY, "dtype": "float64"}
    return lb.simulate(policy, params, bandit, trace=True, coverage=coverage, **known)


@pytest.mark.parametrize(("name", "epsilon"), [("menu", 1.0), ("mom", 0.5), ("tofu", 0.5), ("crt", 0.5), ("oful", 1.0)])
def test_the_oracle_s_misses_and_ratios(name, epsilon):
    bandit = problem(epsilon)
    missed = []
    for scale in (1.0, 0.01):  # one program: the scale is traced
        result = simulate(name, bandit, scale)
        for seed in range(SEEDS):
            oracle = CASES[name][0](ARMS, constants_of(bandit, CASES[name][1], scale))
            miss, worst = watched(oracle, result.trace.arms[seed], result.trace.payoffs[seed], THETA)
            assert result.coverage.first_miss[seed] == miss
            assert result.coverage.worst_ratio[seed] == pytest.approx(worst, rel=1e-9)
            assert result.coverage.covered[seed] == (worst <= 1)
            missed.append(miss)
        assert result.coverage.first_miss.dtype == np.int64
    assert 0 in missed
    assert any(missed)


@pytest.mark.parametrize(("name", "epsilon"), [("tofu", 0.5), ("oful", 1.0)])
def test_watching_changes_nothing(request, name, epsilon):
    if name == "oful":  # whose programs' bits are those that users get
        request.getfixturevalue("optimised")
    seen, unseen = (simulate(name, problem(epsilon), 0.01, coverage) for coverage in (True, False))
    assert unseen.coverage is None
    np.testing.assert_array_equal(seen.trace.arms, unseen.trace.arms)
    np.testing.assert_array_equal(seen.trace.payoffs, unseen.trace.payoffs)
    np.testing.assert_array_equal(seen.regret, unseen.regret)
    np.testing.assert_array_equal(seen.payoff, unseen.payoff)


def test_unwatched_programs_are_those_of_a_policy_without_a_region(monkeypatch):
    texts = []
    lower = launches.lower

    def spy(launch, arguments):
        texts.append(lower(launch, arguments).lower().as_text())
        raise RuntimeError("lowered")  # there is no need to compile it

    monkeypatch.setattr(launches, "lower", spy)
    bandit = problem()
    policy, params = lb.make_policy("oful", bandit, horizon=70)
    bare = policy._replace(region=lambda state, arms, params: lb.Region(policy.region(state, arms, params).center))
    for player, coverage in ((policy, False), (bare, False), (policy, True)):
        with pytest.raises(RuntimeError, match="lowered"):
            lb.simulate(player, params, bandit, horizon=70, num_seeds=2, key=KEY, dtype="float64", coverage=coverage)
    assert texts[0] == texts[1] != texts[2]


def test_a_fresh_instance_is_measured_against_its_own_theta_star():
    bandit = lb.dataset("S3", resample=True)
    policy, params = lb.make_policy("oful", bandit, horizon=60, radius_scale=0.5)
    known = {"horizon": 60, "num_seeds": SEEDS, "key": KEY, "dtype": "float64", "block_size": SEEDS}
    result = lb.simulate(policy, params, bandit, trace=True, coverage=True, **known)
    for seed in range(SEEDS):
        arms, theta = map(np.asarray, bandit.generator(jax.random.fold_in(jax.random.fold_in(KEY, seed), 3)))
        told = Constants(60, float(np.linalg.norm(theta)), radius_scale=0.5, noise_scale=params.noise_scale)
        oracle = OfulOracle(arms, told)
        miss, worst = watched(oracle, result.trace.arms[seed], result.trace.payoffs[seed], theta)
        assert result.coverage.first_miss[seed] == miss
        assert result.coverage.worst_ratio[seed] == pytest.approx(worst, rel=1e-8)


def test_changing_sets_are_watched_too():
    name = "crt"
    sets = np.random.default_rng(0).uniform(size=(200, 4, 3))
    bandit = lb.LinearBandit.changing_sets(
        lambda key, t: jnp.asarray(sets)[t - 1], THETA, lb.noise.StudentT(3.0), arm_norm=math.sqrt(3.0)
    )
    result = simulate(name, bandit, 0.02)
    for seed in range(SEEDS):
        oracle = CASES[name][0](sets, constants_of(bandit, 200, 0.02))
        miss, worst = watched(oracle, result.trace.arms[seed], result.trace.payoffs[seed], THETA)
        assert result.coverage.first_miss[seed] == miss
        assert result.coverage.worst_ratio[seed] == pytest.approx(worst, rel=1e-8)


def test_a_radius_of_zero_is_missed_by_an_infinite_ratio():
    result = simulate("oful", problem(), 0.0)
    np.testing.assert_array_equal(result.coverage.first_miss, 1)
    np.testing.assert_array_equal(result.coverage.worst_ratio, np.inf)


@pytest.mark.parametrize("name", ["uniform", "greedy", "explore_then_commit"])
def test_what_has_no_region_is_refused(name):
    bandit = problem()
    policy, params = lb.make_policy(name, bandit, horizon=400, delta=0.99)
    with pytest.raises(ValueError, match=f"coverage=True: policy {name} has no confidence region"):
        lb.simulate(policy, params, bandit, horizon=400, num_seeds=1, key=KEY, coverage=True)


def test_a_region_of_the_wrong_shape_is_told():
    bandit = problem()
    policy, params = lb.make_policy("oful", bandit, horizon=50)
    broken = policy._replace(region=lambda state, arms, params: lb.Region(jnp.zeros(3), params.ridge, lambda v: v))
    with pytest.raises(ValueError, match=r"policy oful: region's radius and norm must be one number each, not"):
        lb.simulate(broken, params, bandit, horizon=50, num_seeds=1, key=KEY)


@pytest.mark.parametrize(("name", "epsilon"), [("tofu", 0.5), ("menu", 1.0)])  # with a fixed-set form, and without
def test_a_bystander_learns_from_payoffs_that_decided_nothing(name, epsilon):
    bandit, (_, horizon) = problem(epsilon), CASES[name]
    policy, params = lb.make_policy(name, bandit, horizon=horizon, radius_scale=0.03)
    pair, told = lb.policies.bystander(policy, params)
    assert lb.policies.bystander(policy, params)[0] == pair
    known = {"horizon": 2 * horizon, "num_seeds": SEEDS, "block_size": SEEDS, "key": KEY, "dtype": "float64"}
    result = lb.simulate(pair, told, bandit, trace=True, coverage=True, **known)
    half = policy.pulls_per_epoch
    epochs = horizon // half
    constants = constants_of(bandit, horizon, 0.03)
    for seed in range(SEEDS):
        arms = result.trace.arms[seed, : 2 * half * epochs].reshape(epochs, 2, half)
        payoffs = result.trace.payoffs[seed, : 2 * half * epochs].reshape(epochs, 2, half)
        np.testing.assert_array_equal(arms[:, 0], arms[:, 1])
        leftover = horizon - half * epochs
        tail = np.full(leftover, result.trace.arms[seed, -1]), np.zeros(leftover)
        played, bystander = CASES[name][0](ARMS, constants), CASES[name][0](ARMS, constants)
        own = [np.concatenate([part.ravel(), end]) for part, end in zip((arms[:, 0], payoffs[:, 0]), tail, strict=True)]
        assert_replays(played, *own)  # the player's own payoffs explain its arms
        seen = np.concatenate([payoffs[:, 1].ravel(), tail[1]])
        miss, worst = watched(bystander, own[0], seen, THETA)
        np.testing.assert_allclose(result.final_estimate[seed], bystander.estimate, rtol=1e-7, atol=1e-9)
        assert result.coverage.first_miss[seed] == 2 * miss
        assert result.coverage.worst_ratio[seed] == pytest.approx(worst, rel=1e-8)
        assert not np.allclose(played.estimate, bystander.estimate)


def test_a_bystander_must_be_told_s():
    policy, params = lb.make_policy("oful", lb.dataset("S3", resample=True), horizon=50)
    with pytest.raises(ValueError, match="theta_norm=inf: a bystander must be told S"):
        lb.policies.bystander(policy, params)


def test_float32_measures_the_distance_that_float64_does(optimised):
    # V^-1 m of a float32 inverse is several radii off in the norm of V, long before the choices feel it.
    bandit = lb.dataset("S1")
    policy, params = lb.make_policy("oful", bandit, horizon=5_000, radius_scale=0.1)
    wide, narrow = (
        lb.simulate(
            policy, params, bandit, horizon=5_000, num_seeds=6, key=KEY, coverage=True, dtype=dtype, block_size=6
        )
        for dtype in ("float64", "float32")
    )
    alike = np.isclose(narrow.regret[:, -1], wide.regret[:, -1], rtol=1e-5)  # rounding may choose another arm
    assert alike.sum() >= 3
    np.testing.assert_allclose(narrow.coverage.worst_ratio[alike], wide.coverage.worst_ratio[alike], rtol=1e-3)
