"""Balls as decision sets: the optimistic arm against brute force, whole runs against oracles, lists of corners."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from oracles import Constants, assert_replays
from oracles_balls import CrtOnBall, OfulOnBall, farthest, index, q_norm, vertices
from traces import compiled_quickly

import linbet_jax as lb
from linbet_jax.errors import UnhealthyWarning
from linbet_jax.kernels.balls import Ball
from linbet_jax.policies.conformance import check_policy
from linbet_jax.storage.provenance import instance_digest

quick_compiles = pytest.fixture(autouse=True, scope="module")(compiled_quickly)

THETA = np.array([0.8, -0.3, 0.5])
NORM = float(np.linalg.norm(THETA))
BALL = lb.LinearBandit.ball(2.0, THETA, lb.noise.StudentT(3.0, scale=0.5))
RANDOM = np.random.default_rng(8)
BEGUN = RANDOM.bit_generator.state


@pytest.fixture(autouse=True)
def the_same_numbers_whatever_ran_before():
    RANDOM.bit_generator.state = BEGUN


def rotation(random, dim):
    return np.linalg.qr(random.normal(size=(dim, dim)))[0]


def cases(dim):
    """(theta, V^-1, beta) of every kind: random ones, and those where much is equal, or nothing."""
    random = np.random.default_rng(dim)
    for condition, length, radius in itertools.product((1.5, 1e3, 1e6), (1e-3, 1.0, 1e3), (0.0, 1e-3, 1.0, 30.0)):
        turn, values = rotation(random, dim), np.exp(random.uniform(-np.log(condition), 0.0, dim))
        yield length * random.normal(size=dim), (turn * values) @ turn.T, radius
    plain = np.eye(dim)
    first = np.ones(dim) / np.sqrt(dim)
    yield np.zeros(dim), plain, 1.0  # before the first pull
    yield np.zeros(dim), 1e-4 * plain, 1.0
    yield 0.2 * first, plain - 0.5 * np.outer(first, first), 1.0  # after it: theta is across the widest
    yield 5.0 * first, plain - 0.5 * np.outer(first, first), 1.0  # far enough to be no hard case
    yield 0.2 * plain[0], np.diag(np.linspace(0.1, 1.0, dim)), 1.0
    yield 0.2 * plain[-1], np.diag(np.linspace(0.1, 1.0, dim)), 1.0
    yield np.zeros(dim), np.diag(np.linspace(0.1, 1.0, dim)), 1.0
    turn = rotation(random, dim)
    yield 0.3 * turn[:, 0], (turn * np.linspace(0.1, 1.0, dim)) @ turn.T, 1.0  # hard, in no special basis
    for part in (2e-5, -2e-5, 1e-9, -1e-9, 1e-12, -1e-12, 2e-13, 1e-13, 4e-14):  # nearly
        yield part * turn[:, -1] + 0.3 * turn[:, 0], (turn * np.linspace(0.1, 1.0, dim)) @ turn.T, 1.0
    block = 0.1 * plain + 0.5 * (plain[0] - 1.0)[:, None] * (plain[0] - 1.0)
    block[0, 0] = 0.9
    yield np.zeros(dim), block, 1.0  # the longest entry of the diagonal is no part of the widest direction
    close = np.r_[np.linspace(0.1, 0.5, dim - 2), 1.0 - 1e-9, 1.0]
    yield 0.3 * turn[:, 0], (turn * close) @ turn.T, 1.0


@functools.cache
def stacked(dim):
    return [np.stack([np.asarray(part, np.float64) for part in column]) for column in zip(*cases(dim), strict=True)]


def chosen(dim, dtype="float64", problems=None):
    """The arms of the unit ball for all cases, or for other ones, in one program."""
    ball = Ball(jnp.ones((), dtype), 2.0, dim)
    parts = (part.astype(dtype) for part in (problems or stacked(dim)))
    return np.asarray(jax.jit(jax.vmap(ball.optimistic))(*parts), np.float64)


@pytest.mark.parametrize("dim", [2, 3])
def test_no_arm_of_a_dense_grid_beats_the_chosen_one(dim):
    arms = chosen(dim)
    np.testing.assert_allclose(np.linalg.norm(arms, axis=1), 1.0, rtol=1e-12)
    angle = np.linspace(0.0, 2.0 * np.pi, 2000)
    grid = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    if dim == 3:
        height = np.linspace(-1.0, 1.0, 200)[:, None, None]
        around = np.sqrt(1.0 - height**2) * grid[::10]
        grid = np.concatenate([around, np.broadcast_to(height, (200, 200, 1))], axis=2).reshape(-1, 3)
    for arm, theta, inverse, radius in zip(arms, *stacked(dim), strict=True):
        best, reached = index(grid, theta, inverse, radius).max(), index(arm, theta, inverse, radius)
        assert reached >= best - 1e-10 * abs(best)
        assert reached <= best + 1e-2 * abs(best)  # the grid is dense


def test_in_eight_dimensions_the_arm_is_the_one_that_an_eigendecomposition_finds():
    arms = chosen(8)
    for arm, theta, inverse, radius in zip(arms, *stacked(8), strict=True):
        best = farthest(theta, inverse, radius) if theta.any() or radius else np.eye(8)[0]
        reached = index(arm, theta, inverse, radius)
        np.testing.assert_allclose(reached, index(best, theta, inverse, radius), rtol=1e-10)
        tries = RANDOM.normal(size=(2000, 8))
        tries /= np.linalg.norm(tries, axis=1, keepdims=True)
        assert index(tries, theta, inverse, radius).max() <= reached * (1.0 + 1e-10)


def test_ties_end_the_same_way_whatever_the_rounding():
    plain, first = np.eye(8), np.ones(8) / np.sqrt(8.0)
    after = plain - 0.5 * np.outer(first, first)
    turn = rotation(RANDOM, 8)
    hard = 0.3 * turn[:, 0], (turn * np.linspace(0.1, 1.0, 8)) @ turn.T
    noise = 1e-16 * RANDOM.normal(size=(8, 8))
    problems = [
        (np.zeros(8), plain), (np.zeros(8), plain + noise + noise.T), (0.2 * first, after),
        (0.2 * first + noise[0], after + noise + noise.T),
        (hard[0] + 1e-14 * turn[:, -1], hard[1]), (hard[0] - 1e-14 * turn[:, -1], hard[1]),
    ]  # fmt: skip
    arms = chosen(8, problems=[*map(np.stack, zip(*problems, strict=True)), np.ones(len(problems))])
    np.testing.assert_allclose(arms[::2], arms[1::2], atol=0.02)
    np.testing.assert_allclose(arms[0], plain[0], atol=1e-9)
    across = plain[0] - first / np.sqrt(8.0)  # of e_1, the widest axis, the part in the largest eigenspace
    assert arms[2] @ across > 0.99 * np.linalg.norm(arms[2] - (arms[2] @ first) * first) * np.linalg.norm(across)


def test_an_optimiser_from_many_starts_finds_no_better_arm():
    columns = [column[[1, 6, 14, 22, -9, -3]] for column in (chosen(8), *stacked(8))]

    def loss(x, arm, theta, inverse, radius):
        reached, other = index(np.stack([arm, x / np.linalg.norm(x)]), theta, inverse, radius)
        return -other / reached

    for problem in zip(*columns, strict=True):
        found = [scipy.optimize.minimize(loss, RANDOM.normal(size=8), problem).fun for _ in range(12)]
        np.testing.assert_allclose(min(found), -1.0, rtol=1e-6)


def test_float32_is_off_by_its_rounding():
    for arm, theta, inverse, radius in zip(chosen(8, "float32"), *stacked(8), strict=True):
        best = farthest(theta, inverse, radius) if theta.any() or radius else np.eye(8)[0]
        highest = index(best, theta, inverse, radius)
        assert abs(index(arm, theta, inverse, radius) - highest) <= 5e-5 * highest
        assert abs(np.linalg.norm(arm) - 1.0) <= 1e-6


def test_what_is_not_finite_gives_no_arm():
    theta = np.zeros((3, 8))
    theta[0, 1] = np.nan
    for q in (2.0, 3.0):
        ball = Ball(jnp.ones(()), q, 8)
        arms = jax.jit(jax.vmap(lambda *of, ball=ball: ball.optimistic(of[0], jnp.eye(8), of[1])))
        for arm in arms(theta, np.array([1.0, np.inf, np.nan])):
            assert not ball.holds(arm)
        assert not ball.holds(jnp.full(8, 1.001 * 8.0 ** (-1.0 / q)))
        assert ball.holds(jnp.full(8, 8.0 ** (-1.0 / q)))
        assert ball.holds(jnp.zeros(8))


@pytest.mark.parametrize("q", [1.2, 3.0])
def test_another_q_takes_the_longest_corner_of_a_region_that_holds_the_ellipsoid(q):
    ball, dual = Ball(jnp.asarray(2.0), q, 4), q / (q - 1.0)
    problems = stacked(4)
    arms = np.asarray(jax.jit(jax.vmap(ball.optimistic))(*problems))
    np.testing.assert_allclose(q_norm(arms, q), 2.0, rtol=1e-12)
    sphere = RANDOM.normal(size=(500, 4))
    sphere /= np.linalg.norm(sphere, axis=1, keepdims=True)
    for arm, theta, inverse, radius in zip(arms, *problems, strict=True):
        corners = vertices(theta, inverse, radius)
        reached, lengths = np.max(corners @ arm), 2.0 * q_norm(corners, dual)
        np.testing.assert_allclose(reached, lengths.max(), rtol=1e-9)
        inside = theta + radius * sphere @ np.linalg.cholesky(inverse).T  # the ellipsoid's surface
        assert 2.0 * q_norm(inside, dual).max() <= reached * (1.0 + 1e-9)


def test_best_support_and_drawn():
    for q in (1.2, 2.0, 3.0):
        ball = Ball(jnp.asarray(2.0), q, 3)
        arm = np.asarray(ball.best(jnp.asarray(THETA)))
        np.testing.assert_allclose(arm @ THETA, ball.support(jnp.asarray(THETA)), rtol=1e-12)
        np.testing.assert_allclose(arm @ THETA, 2.0 * q_norm(THETA, q / (q - 1.0)), rtol=1e-12)
        np.testing.assert_allclose(q_norm(arm, q), 2.0, rtol=1e-12)
        np.testing.assert_array_equal(ball.best(jnp.zeros(3)), [2.0, 0.0, 0.0])
        drawn = np.asarray(ball.drawn(jax.random.key(1)))
        np.testing.assert_allclose(q_norm(drawn, q), 2.0, rtol=1e-12)


# Runs ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "oracle"), [("oful", OfulOnBall), ("crt", CrtOnBall)])
@pytest.mark.parametrize("scale", [1.0, 0.05])
def test_a_run_plays_the_oracle_s_arms(name, oracle, scale):
    policy, params = lb.make_policy(name, BALL, horizon=60, radius_scale=scale)
    run = lb.simulate(policy, params, BALL, horizon=60, num_seeds=2, key=jax.random.key(3), num_records=60, trace=True)
    assert run.trace.arms.shape == (2, 60, 3)
    told = Constants(60, NORM, radius_scale=scale, raw_moment_bound=BALL.raw_moment_bound, noise_scale=BALL.noise_std)
    for seed in range(2):
        reference = oracle(np.zeros((1, 3)), told)
        reference.played, reference.size = run.trace.arms[seed], 2.0
        played = np.zeros(60, int)
        assert_replays(reference, played, run.trace.payoffs[seed], run.final_estimate[seed])
    gaps = 2.0 * NORM - run.trace.arms @ THETA
    np.testing.assert_allclose(run.regret, np.cumsum(gaps, axis=1), atol=1e-10)
    np.testing.assert_allclose(np.linalg.norm(run.trace.arms, axis=2), 2.0, rtol=1e-12)
    assert not run.health.any()


EVERY = [name for name in lb.policies.names() if lb.policies.entry(name).sets == "any"]


@pytest.mark.parametrize("name", EVERY)
def test_policies_for_any_set_take_balls(name):
    policy, params = lb.make_policy(name, BALL, horizon=2000)
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(np.shape(leaf), "float64"), params)
    ball = Ball(jax.ShapeDtypeStruct((), "float64"), 2.0, 3)
    check_policy(policy, shapes, ball, changing=False, coverage=False)


@pytest.mark.parametrize("name", [name for name in lb.policies.names() if name not in EVERY])
def test_the_others_refuse_before_anything_compiles(name):
    with pytest.raises(ValueError, match=f"bandit: {name} needs a finite list of arms, .* that play it: menu, tofu"):
        lb.make_policy(name, BALL, horizon=2000)


def run(policy, params, bandit=BALL, **more):
    return lb.simulate(policy, params, bandit, horizon=20, num_seeds=2, key=jax.random.key(0), **more)


def test_a_policy_that_was_made_for_a_list_of_arms_is_refused():
    policy, params = lb.make_policy("oful", lb.dataset("S3"), horizon=20)
    with pytest.raises(ValueError, match="oful: init does not fit the arms of a ball.* made for a fixed decision set"):
        run(policy, params)
    mine = lb.Policy("mine", lambda arms, p: jnp.zeros(()), lambda k, s, arms, p: jnp.int32(0), lambda s, *_: s)
    with pytest.raises(ValueError, match=r"mine: select must return an arm of the ball, float64\[3\], not int32\[\]"):
        run(mine, {})


def test_an_arm_outside_the_ball_is_a_fault_of_its_seed():
    def select(key, state, arms, params):
        return jnp.array([2.0, 0.0, 0.0]) * jnp.where(state == 3, 1.01, 1.0)

    mine = lb.Policy("mine", lambda arms, p: jnp.zeros((), int), select, lambda s, *_: s + 1)
    with pytest.warns(UnhealthyWarning):
        assert (run(mine, {}).health == 4).all()


# The bandit ----------------------------------------------------------------------------------------------------------


def test_what_a_bandit_on_a_ball_tells():
    best = 2.0 * NORM
    assert (BALL.best_mean, BALL.mean_bound, BALL.theta_norm) == pytest.approx((best, best, NORM))
    assert (BALL.num_arms, BALL.dim, BALL.arm_norm, BALL.norm_ball) == (0, 3, 2.0, (2.0, 2.0))
    assert BALL.central_moment_bound == pytest.approx(0.75)  # of 0.5 t(3)
    assert BALL.raw_moment_bound == pytest.approx(0.75 + best**2)
    other = lb.LinearBandit.ball(2.0, THETA, BALL.noise, q=3.0)
    assert other.best_mean == pytest.approx(2.0 * q_norm(THETA, 1.5))
    assert other.arm_norm == pytest.approx(2.0 * 3.0 ** (1.0 / 6.0))  # of (1, 1, 1) at ||x||_3 = 2
    assert lb.LinearBandit.ball(2.0, THETA, BALL.noise, q=1.5).arm_norm == 2.0
    assert other != BALL
    first, second = (lb.LinearBandit.ball(2.0, [1.0, 0.0], BALL.noise, q=q) for q in (1.5, 1.7))  # of equal constants
    assert instance_digest(first) != instance_digest(second)
    assert lb.LinearBandit.ball(2, THETA, lb.noise.StudentT(3.0, scale=0.5)) == BALL


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"radius": 0.0}, "radius must satisfy 0 < radius < inf, got 0.0"),
        ({"q": 1.0}, r"q must satisfy 1 < q < inf \(datasets.cross_polytope .*datasets.box .*, got 1.0"),
        ({"q": np.inf}, "q must satisfy 1 < q < inf .*, got inf"),
        ({"q": "two"}, "q must satisfy .*, got 'two'"),
        ({"theta_star": [[1.0]]}, "theta_star must be a 1-D array"),
        ({"theta_norm": 0.5}, "theta_norm must be at least 0.98"),
        ({"raw_moment_bound": 1.0}, "raw_moment_bound must be at least 4.6"),
        ({"noise": lb.noise.Pareto(2.5)}, "mean"),  # has no negative one
    ],
)
def test_bad_input_is_named(changes, message):
    arguments = {"radius": 2.0, "theta_star": THETA, "noise": BALL.noise, **changes}
    with pytest.raises(ValueError, match=message):
        lb.LinearBandit.ball(**arguments)


def test_a_theta_that_moves_needs_a_list_of_arms():
    with pytest.raises(ValueError, match="bandit must be a LinearBandit with fixed arms"):
        lb.drifting(BALL, lb.rotating(THETA, 0.1))


def test_lists_of_corners():
    low, high = np.array([-1.0, 0.0, 2.0]), np.array([1.0, 0.5, 3.0])
    arms = lb.datasets.box(low, high)
    assert {*map(tuple, arms)} == {*itertools.product(*zip(low, high, strict=True))}
    assert arms.shape == (8, 3)
    np.testing.assert_array_equal(arms[5], [1.0, 0.0, 3.0])  # bits 0 and 2
    axes = lb.datasets.cross_polytope(3, 2.0)
    assert {*map(tuple, axes)} == {tuple(s * 2.0 * row) for s in (1.0, -1.0) for row in np.eye(3)}
    best = lb.LinearBandit(axes, THETA, lb.noise.StudentT(3.0)).best_mean
    assert best == 2.0 * np.max(np.abs(THETA))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: lb.datasets.box(np.zeros(13), np.ones(13)), "low must have at most 12 entries .*NP-hard.*, got 13"),
        (lambda: lb.datasets.box([0.0, 1.0], [1.0, 1.0]), "high must be above low = 1 at index 1, got 1"),
        (lambda: lb.datasets.box([0.0, 1.0], [1.0]), "high must have length 2 like low, got length 1"),
        (lambda: lb.datasets.cross_polytope(0), "dim must satisfy 1 <= dim"),
        (lambda: lb.datasets.cross_polytope(2, -1.0), "radius must satisfy 0 < radius"),
    ],
)
def test_bad_corners_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
