"""A theta_star that moves: paths, what policies are told, regret against each pull's best arm, and what is refused."""

import math
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import Constants, MenuOracle, OfulOracle, assert_replays
from traces import compiled_quickly

import linbet_jax as lb
from linbet_jax.storage.provenance import instance_digest

quick_compiles = pytest.fixture(autouse=True, scope="module")(compiled_quickly)

RANDOM = np.random.default_rng(4)
ARMS = RANDOM.normal(size=(6, 3))
THETA = np.array([0.8, -0.3, 0.5])
NORM = float(np.linalg.norm(THETA))
STILL = lb.LinearBandit(ARMS, THETA, lb.noise.StudentT(3.0, scale=0.5))
CAUCHY = lb.noise.StudentT(1.0)


class Own:
    """A law that says no moments."""

    name, max_order, mean_range = "own", math.inf, (-math.inf, math.inf)

    def standard(self, key, dtype=None):
        return jax.random.normal(key, dtype=lb.noise.float_dtype(dtype))

    def payoff(self, standard, mean):
        return mean + standard


OWN = lb.LinearBandit(ARMS, THETA, Own(), raw_moment_bound=3.0, central_moment_bound=1.0)
AXIS = np.array([0.0, 1.0, 0.0])  # where theta_star is smallest in size
KEY = jax.random.key(3)
SEEDS = 2


def rotated(angle, horizon):
    """[T, 3] by the rotation in the plane of theta_star and the axis."""
    first = THETA / NORM
    second = AXIS - (AXIS @ first) * first
    second /= np.linalg.norm(second)
    phase = angle * np.arange(horizon)[:, None]
    return NORM * (np.cos(phase) * first + np.sin(phase) * second)


def visited(path, seed, horizon):
    """[T, 3] where a path leads a seed."""
    key = jax.random.fold_in(jax.random.fold_in(KEY, seed), 4)
    return np.asarray(jax.jit(jax.vmap(path, (None, 0)))(key, jnp.arange(1, horizon + 1)), np.float64)


def test_a_rotation_turns_by_its_angle_in_one_plane():
    path = lb.rotating(THETA, 0.1)
    np.testing.assert_allclose(visited(path, 0, 70), rotated(0.1, 70), atol=1e-14)
    np.testing.assert_array_equal(visited(path, 0, 5), visited(path, 1, 5))  # one path for all seeds
    back = visited(lb.rotating(THETA, -0.1, towards=[1.0, 0.0, 0.0]), 0, 3)
    assert back[1] @ THETA == pytest.approx(NORM**2 * math.cos(0.1), rel=1e-12)
    assert back[1][0] < THETA[0]
    assert path == lb.rotating(list(THETA), 0.1) != lb.rotating(THETA, 0.2)


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_paths_keep_norms_whose_squares_are_out_of_range(unit):
    rotation, jumps = lb.rotating(unit * THETA, 0.1), lb.jumping(unit * THETA, 2)
    for vectors in (visited(rotation, 0, 5), visited(jumps, 0, 5)):
        np.testing.assert_allclose(np.linalg.norm(vectors / unit, axis=1), NORM, rtol=1e-12)


def test_a_jump_takes_a_new_direction_of_the_same_norm_in_every_replication():
    path = lb.jumping(THETA, 4)
    first, second = visited(path, 0, 13), visited(path, 1, 13)
    np.testing.assert_allclose(np.linalg.norm(first, axis=1), NORM, rtol=1e-12)
    np.testing.assert_allclose(first[:4], np.tile(THETA, (4, 1)), rtol=1e-15)
    stretches = [len(np.unique(first[start : start + 4], axis=0)) for start in (4, 8, 12)]
    assert stretches == [1, 1, 1]
    assert len(np.unique(np.concatenate([first, second]), axis=0)) == 1 + 2 * 3
    keys = jax.random.split(jax.random.key(0), 4_000)
    directions = np.asarray(jax.vmap(lambda key: path(key, 5))(keys)) / NORM
    np.testing.assert_allclose(directions.mean(axis=0), 0.0, atol=5 / math.sqrt(3 * 4_000))
    np.testing.assert_allclose(directions.T @ directions / 4_000, np.eye(3) / 3, atol=0.05)


def test_what_policies_are_told_holds_along_the_path():
    bandit = lb.drifting(STILL, lb.rotating(THETA, 0.01))
    assert (bandit.theta_norm, bandit.arm_norm, bandit.epsilon) == (STILL.theta_norm, STILL.arm_norm, 1.0)
    assert bandit.mean_bound == STILL.arm_norm * STILL.theta_norm
    assert bandit.raw_moment_bound == pytest.approx(STILL.noise.raw_moment(2.0, bandit.mean_bound), rel=1e-12)
    assert bandit.central_moment_bound == STILL.central_moment_bound
    assert (bandit.theta_star, bandit.means, bandit.best_mean, bandit.changing) == (None, None, None, False)
    assert bandit.name == "drifting custom"
    again = lb.drifting(STILL, lb.rotating(THETA, 0.01))
    assert bandit == again == pickle.loads(pickle.dumps(bandit))
    assert hash(bandit) == hash(again)
    assert bandit != lb.drifting(STILL, lb.jumping(THETA, 9))
    assert lb.drifting(STILL, lb.jumping(THETA, 9), mean_bound=3.5, theta_norm=3.0, name="x").mean_bound == 3.5
    with pytest.raises(ValueError, match="drifting custom has no fixed instance to hash"):
        instance_digest(bandit)


@pytest.mark.parametrize(
    ("name", "oracle", "path", "horizon", "delta"),
    [
        ("oful", OfulOracle, lb.rotating(THETA, 0.02), 300, 0.1),
        ("menu", MenuOracle, lb.jumping(THETA, 50), 700, 0.9),  # jumps within epochs of some 200 pulls
    ],
    ids=["oful", "menu"],
)
def test_replay_with_a_theta_star_that_moves(name, oracle, path, horizon, delta):
    bandit = lb.drifting(STILL, path)
    policy, params = lb.make_policy(name, bandit, horizon=horizon, delta=delta, radius_scale=0.2)
    run = lb.simulate(
        policy, params, bandit, horizon=horizon, num_seeds=SEEDS, key=KEY, trace=True, dtype="float64",
        num_records=horizon,
    )  # fmt: skip
    assert not run.health.any()
    told = Constants(
        horizon, NORM, delta=delta, radius_scale=0.2, central_moment_bound=0.75, noise_scale=math.sqrt(0.75)
    )
    exact = 1e-11 if name == "oful" else 1e-6  # jumps are drawn in float32
    for seed in range(SEEDS):
        thetas = rotated(0.02, horizon) if name == "oful" else visited(path, seed, horizon)
        means, played = thetas @ ARMS.T, run.trace.arms[seed]
        pulled = means[np.arange(horizon), played]
        stream = STILL.noise.stream(jax.random.fold_in(jax.random.fold_in(KEY, seed), 0), jnp.float64)
        noise = 0.5 * np.asarray(stream(jnp.arange(1, horizon + 1)))
        np.testing.assert_allclose(run.trace.payoffs[seed], pulled + noise, atol=exact)
        np.testing.assert_allclose(run.regret[seed], np.cumsum(means.max(axis=1) - pulled), rtol=exact)
        assert_replays(oracle(ARMS, told), played, run.trace.payoffs[seed], run.final_estimate[seed])


def test_a_seed_is_itself_and_float32_sees_the_same_path():
    bandit = lb.drifting(STILL, lb.jumping(THETA, 7))
    policy, params = lb.make_policy("uniform", bandit, horizon=50)

    def run(dtype, **seeds):
        return lb.simulate(policy, params, bandit, horizon=50, key=KEY, dtype=dtype, trace=True, **seeds)

    both = run("float64", num_seeds=3)
    np.testing.assert_array_equal(both.regret[2], run("float64", seeds=[2]).regret[0])
    np.testing.assert_allclose(run("float32", num_seeds=3).regret, both.regret, rtol=1e-5)


def test_a_mean_that_the_law_does_not_have_is_a_fault_of_its_pull():
    arms = np.eye(2)
    still = lb.LinearBandit(arms, [0.5, 0.25], lb.noise.Pareto(3.0))

    def once_negative(key, pull):  # at no pull that is held against what is declared
        return jnp.where(pull == 3, -1.0, 1.0) * jnp.array([0.5, 0.25])

    bandit = lb.drifting(still, once_negative)
    policy, params = lb.make_policy("uniform", bandit, horizon=50)
    with pytest.warns(RuntimeWarning):
        run = lb.simulate(policy, params, bandit, horizon=50, num_seeds=2, key=KEY)
    np.testing.assert_array_equal(run.health, [3, 3])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: lb.drifting(3, lb.jumping(THETA, 9)), "bandit must be a LinearBandit with fixed arms .* got 3"),
        (lambda: lb.drifting(lb.dataset("S1", resample=True), lb.jumping(THETA, 9)), "with fixed arms .* got S1"),
        (
            lambda: lb.drifting(lb.drifting(STILL, lb.jumping(THETA, 9)), lb.jumping(THETA, 9)),
            "a theta_star that stays, got drifting custom",
        ),
        (lambda: lb.drifting(STILL, THETA), "path must be a traceable function of a key, got "),
        (lambda: lb.drifting(STILL, lambda key, pull: jnp.ones(2)), r"shape \[d\], real numbers with d = 3, got "),
        (lambda: lb.drifting(STILL, lambda key, pull: THETA if pull < 9 else -THETA), "path must use jax.numpy"),
        (
            lambda: lb.drifting(STILL, lambda key, pull: THETA * pull),
            "theta_norm must be at least .* a sample of 16",
        ),
        (lambda: lb.drifting(STILL, lb.jumping(THETA, 1), mean_bound=0.1), "mean_bound must be at least "),
        (lambda: lb.drifting(OWN, lb.jumping(THETA, 9), central_moment_bound=1.0), "Own has no moment_bounds .needed"),
        (
            lambda: lb.drifting(lb.LinearBandit(ARMS, THETA, CAUCHY), lb.jumping(THETA, 9), raw_moment_bound=1.0),
            "raw_moment_bound must not be given for Student t.1., which has no mean, got 1.0",
        ),
        (lambda: lb.rotating(THETA, math.nan), "angle must be finite, got nan"),
        (lambda: lb.rotating(THETA, "much"), "angle must be one finite number, got 'much'"),
        (lambda: lb.rotating(THETA, 0.1, towards=2 * THETA), "towards must not lie along theta_star, got "),
        (lambda: lb.rotating(THETA, 0.1, towards=[1.0]), "towards must have length 3 like theta_star, got length 1"),
        (lambda: lb.rotating([1.0], 0.1), r"theta_star must have at least two entries .* got \[1.0\]"),
        (lambda: lb.jumping([0.0, 0.0], 3), "theta_star must have at least two entries that are not all 0"),
        (lambda: lb.jumping(THETA, 0), "every must satisfy 1 <= every <= 2147483647, got 0"),
        (lambda: lb.jumping(THETA, 2.0), "every must be an integer with 1 <= every"),
    ],
)
def test_what_does_not_move_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_what_no_pull_meets_is_not_checked():
    arms, path = np.eye(2), lb.rotating([0.5, 0.25], 1e-3)  # a mean is negative from some thousand pulls on
    still = lb.LinearBandit(arms, [0.5, 0.25], lb.noise.Pareto(3.0))
    with pytest.raises(ValueError, match="path must keep means within 0 <= mean <= inf"):
        lb.drifting(still, path)
    assert lb.drifting(still, path, horizon=1_000).path == path
    with pytest.raises(ValueError, match="horizon must satisfy 1 <= horizon, got 0"):
        lb.drifting(still, path, horizon=0)


def test_a_law_of_one_s_own_moves_with_bounds_that_are_given():
    moved = lb.drifting(OWN, lb.jumping(THETA, 9), raw_moment_bound=4.0, central_moment_bound=1.0)
    assert (moved.raw_moment_bound, moved.central_moment_bound) == (4.0, 1.0)


def test_coverage_needs_a_theta_star_that_stays():
    bandit = lb.drifting(STILL, lb.jumping(THETA, 9))
    policy, params = lb.make_policy("oful", bandit, horizon=50)
    with pytest.raises(ValueError, match="coverage=True: drifting custom has no fixed theta"):
        lb.simulate(policy, params, bandit, horizon=50, num_seeds=2, key=KEY, coverage=True)
