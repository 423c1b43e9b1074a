"""lints, sgd, explore_then_commit and mean_of_medians: recorded runs against plain NumPy, and what they promise."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from oracles import Oracle, assert_replays
from oracles_elim import greedy_counts, smallest_odd_copies
from oracles_later import CrmmOracle, LaterConstants
from scipy import stats
from traces import compiled_quickly

import linbet_jax as lb
from linbet_jax import theory
from linbet_jax.noise.words import normals
from linbet_jax.policies import FixedSet, gradient, mean_of_medians
from linbet_jax.policies.mean_of_medians import told_to_base

SEEDS, HORIZON = 3, 400
KEY = jax.random.key(0)
RNG = np.random.default_rng(11)
ARMS, THETA = RNG.uniform(size=(8, 3)), np.array([0.9, 0.2, -0.6])
S = float(np.linalg.norm(THETA))

quick_compiles = pytest.fixture(autouse=True, scope="module")(compiled_quickly)


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
                if t % 50 == 0:
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
    many = jax.vmap(lambda i: normals(jax.random.fold_in(KEY, i), 10, jnp.float64))
    assert np.all(np.isfinite(jax.jit(many)(jnp.arange(200_000))))  # among them angles where a sine rounds beyond 1
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


# Gradient steps


@pytest.mark.parametrize(("loss", "explore"), [("squared", "epsilon"), ("huber", "width")])
def test_replay_of_sgd(loss, explore):
    bandit, every = turning() if loss == "squared" else (problem(), None)
    for given in ({}, {"exploration": 0.4, "learning_rate": 0.9, "clip": 0.5, "threshold": 0.2, "theta_norm": 0.3}):
        result = run("sgd", bandit, loss=loss, explore=explore, **given)
        sets = np.broadcast_to(ARMS, (HORIZON, *ARMS.shape)) if every is None else every
        longest = np.linalg.norm(sets, axis=-1).max()
        eta = given.get("learning_rate", longest**-2)
        clip = given.get("clip", longest * (longest * S + math.sqrt(3.0)))
        tau, ball = given.get("threshold", math.sqrt(3.0)), given.get("theta_norm", S)
        explored = projected = clipped = 0
        for seed in range(SEEDS):
            coins = np.asarray(jax.vmap(lambda key: jax.random.uniform(key, (2,), jnp.float32))(choice_keys(seed)))
            theta, gram = np.zeros(3), np.eye(3)
            for t, (arm, payoff) in enumerate(zip(result.trace.arms[seed], result.trace.payoffs[seed], strict=True)):
                values = sets[t] @ theta
                if explore == "width":
                    widths = np.sqrt(np.einsum("ki,ij,kj->k", sets[t], np.linalg.inv(gram), sets[t]))
                    values = values + given.get("exploration", 0.1) * widths
                if explore == "epsilon" and coins[t, 0] < given.get("exploration", 0.1):
                    explored += 1
                    assert arm == int(coins[t, 1] * len(values))
                else:
                    assert values[arm] >= values.max() - 1e-9
                x = sets[t, arm]
                residual = x @ theta - payoff
                g = (np.clip(residual, -tau, tau) if loss == "huber" else residual) * x
                if np.linalg.norm(g) > clip:
                    g, clipped = g * clip / np.linalg.norm(g), clipped + 1
                theta = theta - eta / math.sqrt(t + 1) * g
                if np.linalg.norm(theta) > ball:
                    theta, projected = theta * ball / np.linalg.norm(theta), projected + 1
                gram = gram + np.outer(x, x)
            np.testing.assert_allclose(result.final_estimate[seed], theta, rtol=1e-8, atol=1e-10)
        assert projected > 0 or not given
        assert (explored > 0) == (explore == "epsilon")
        assert clipped > 0 or loss == "huber"


@functools.cache
def adam():
    return optax.adam(0.05)


def test_any_optimizer_moves_the_estimate():
    bandit = problem()
    _, params = lb.make_policy("sgd", bandit, horizon=HORIZON)
    policy = gradient(FixedSet(3), optimizer=adam(), explore="width")
    result = played(policy, params, bandit)
    theta = jnp.zeros(3)
    state = adam().init(theta)
    step = jax.jit(adam().update)
    for arm, payoff in zip(result.trace.arms[0], result.trace.payoffs[0], strict=True):
        updates, state = step((ARMS[arm] @ theta - payoff) * ARMS[arm], state, theta)
        theta = theta + updates
    np.testing.assert_allclose(result.final_estimate[0], theta, rtol=1e-8)
    assert policy == gradient(FixedSet(3), optimizer=adam(), explore="width")


def test_sgd_learns_in_any_unit_and_survives_any_payoff():
    plain, larger = run("sgd", problem()), run("sgd", problem(unit=8.0))
    np.testing.assert_array_equal(larger.trace.arms, plain.trace.arms)
    np.testing.assert_allclose(larger.final_estimate, 8.0 * plain.final_estimate, rtol=1e-9)
    assert np.mean(plain.regret[:, -1]) < 0.5 * np.mean(run("uniform", problem()).regret[:, -1])
    policy, params = lb.make_policy("sgd", problem(), horizon=HORIZON, loss="huber")
    params, arms = jax.tree.map(jnp.asarray, params), jnp.asarray(ARMS)
    state = policy.init(arms, params)
    for payoff in (1e200, -1e200, 0.5):
        state = policy.update(state, arms, 1, jnp.full(1, payoff), params)
        assert np.linalg.norm(state.theta) <= S * (1 + 1e-12)
    for option, allowed in (("loss", "'squared' and 'huber'"), ("explore", "'epsilon' and 'width'")):
        with pytest.raises(ValueError, match=f"{option}='none': allowed are {allowed}"):
            lb.make_policy("sgd", problem(), horizon=HORIZON, **{option: "none"})
    for option in ("learning_rate", "clip", "threshold"):
        with pytest.raises(ValueError, match=f"{option}=0: must be positive"):
            lb.make_policy("sgd", problem(), horizon=HORIZON, **{option: 0})


# Explore, then commit


def test_replay_of_explore_then_commit():
    bandit, ridge, delta = problem(), 0.5, 0.3
    k = smallest_odd_copies(delta / 8)
    policy, params = lb.make_policy("explore_then_commit", bandit, horizon=HORIZON, delta=delta, ridge=ridge)
    n0 = 54  # 54^3 <= 400^2 < 55^3
    assert dict(policy.about.facts) == {"k": k, "rows": n0 // k}
    counts, gram = greedy_counts(ARMS, n0 // k, ridge, np.ones(8, bool))
    order = np.repeat(np.arange(8), counts * k)
    result = played(policy, params, bandit)
    for arms, payoffs, estimate in zip(result.trace.arms, result.trace.payoffs, result.final_estimate, strict=True):
        np.testing.assert_array_equal(arms[: order.size], order)
        copies = payoffs[: order.size].reshape(-1, k)
        rows = ARMS[order[::k]]
        values = np.median(ARMS @ np.linalg.solve(gram, rows.T @ copies), axis=1)
        assert np.all(arms[order.size :] == arms[-1])
        assert values[arms[-1]] >= values.max() - 1e-9
        fitted = np.linalg.solve(gram, ARMS.T @ (counts * values))
        np.testing.assert_allclose(estimate, fitted, rtol=1e-8)
    moved = played(*lb.make_policy("explore_then_commit", problem(unit=8.0), horizon=HORIZON, delta=delta, ridge=ridge),
                   problem(unit=8.0))  # fmt: skip
    np.testing.assert_array_equal(moved.trace.arms, result.trace.arms)
    policy.about.check(params._replace(horizon=401.0))
    with pytest.raises(
        ValueError, match="delta=0.01, horizon=400: explore_then_commit|horizon=400: explore_then_commit"
    ):
        policy.about.check(params._replace(delta=0.01))
    with pytest.raises(ValueError, match="delta=0.3, horizon=900: they need another design"):
        policy.about.check(params._replace(horizon=900.0))


def test_explore_then_commit_names_the_smallest_horizon():
    for dim, num_arms, delta in ((3, 8, 0.1), (20, 100, 0.1), (1, 1, 0.9)):
        k = smallest_odd_copies(delta / num_arms)
        smallest = next(t for t in range(1, 10**6) if math.floor(t ** (2 / 3) + 1e-9) // k >= dim)
        assert theory.etc_schedule(smallest, dim=dim, num_arms=num_arms, delta=delta) == (dim, k)
        if smallest > 1:
            with pytest.raises(ValueError, match=f"needs T >= {smallest}: "):
                theory.etc_schedule(smallest - 1, dim=dim, num_arms=num_arms, delta=delta)
    assert theory.etc_schedule(1_000, dim=1, num_arms=1, delta=0.9).rows == 100  # T^(2/3) is whole
    with pytest.raises(ValueError, match="explore_then_commit plans its design ahead"):
        lb.make_policy("explore_then_commit", turning()[0], horizon=HORIZON)
    assert [theory.regret_exponent("explore_then_commit", e) for e in (1.0, 0.5)] == pytest.approx([2 / 3, 7 / 9])


# Means of medians


class MediansOracle(CrmmOracle):
    """OFUL at R/sqrt(k') and delta/2 on means of k' medians of g payoffs."""

    def __init__(self, arms, constants, groups, blocks):
        self.pulls, self.groups, self.blocks = groups * blocks, groups, blocks
        Oracle.__init__(self, arms, constants)

    def update(self, payoffs):
        mean = np.mean([np.median(part) for part in payoffs.reshape(self.blocks, self.groups)])
        self.moments = self.moments + self.features[-1] * mean
        self.estimate = np.linalg.inv(self.gram) @ self.moments

    def beta(self, count):
        c = self.constants
        return c.quantile / math.sqrt(self.blocks) * math.sqrt(2.0 * (self.half_log_det_ratio() + c.log)) + c.bias


@pytest.mark.parametrize("blocks", [1, 3])
def test_replay_of_mean_of_medians(blocks):
    bandit, scale = problem(), 0.3
    policy, params = lb.make_policy("mean_of_medians", bandit, horizon=HORIZON, radius_scale=scale, blocks=blocks)
    groups = next(
        g for g in range(1, HORIZON, 2)
        if 2 * stats.binom.sf((g - 1) // 2, g, 0.125) <= 0.1 / (2 * blocks * (HORIZON // (g * blocks)))
    )  # fmt: skip
    facts = dict(policy.about.facts)
    assert (facts["g"], facts["N"], policy.pulls_per_epoch) == (groups, HORIZON // (groups * blocks), groups * blocks)
    result = played(policy, params, bandit, coverage=True)
    told = LaterConstants(HORIZON, S, radius_scale=scale, quantile=math.sqrt(12.0))
    for seed in range(SEEDS):
        oracle = MediansOracle(ARMS, told, groups, blocks)
        assert_replays(oracle, result.trace.arms[seed], result.trace.payoffs[seed], result.final_estimate[seed])
    if blocks == 1:
        np.testing.assert_array_equal(run("crmm", bandit, scale).trace.arms, result.trace.arms)
    with pytest.raises(ValueError, match=rf"they need other medians than those of g={groups} payoffs"):
        policy.about.check(params._replace(delta=1e-6))
    policy.about.check(params._replace(radius_scale=2.0))


def test_what_the_base_of_medians_is_told():
    bandit = problem()
    c = 12.0 / 2
    _, params = lb.make_policy("mean_of_medians", bandit, horizon=HORIZON, base="tofu", blocks=2)
    assert params.raw_moment_bound == pytest.approx(c + bandit.mean_bound**2)
    assert (params.epsilon, params.delta, params.horizon) == (1.0, 0.1, float(HORIZON))
    _, params = lb.make_policy("mean_of_medians", bandit, horizon=HORIZON, base="hvt_ucb", blocks=2, quantile=5.0)
    assert params.central_moment_bound == pytest.approx(12.5)
    told = told_to_base(params, 22)
    assert (told.horizon, told.delta) == (18.0, 0.05)
    heavy = problem(noise=lb.noise.CenteredPareto(2.5))
    with pytest.raises(ValueError, match="assume_symmetric=False: mean_of_medians needs noise that is symmetric"):
        lb.make_policy("mean_of_medians", heavy, horizon=HORIZON)
    for options, message in (
        ({"base": "greedy"}, "base='greedy': allowed are 'oful'"),
        ({"blocks": 0}, "blocks=0: must be a whole number"),
        ({"horizon": 4}, "horizon=4: mean_of_medians at delta=0.1 needs at least 5 pulls"),
        ({"mean_bound": -1}, "mean_bound=-1: must be"),
    ):
        with pytest.raises(ValueError, match=message):
            lb.make_policy("mean_of_medians", bandit, **{"horizon": HORIZON, **options})
    with pytest.raises(ValueError, match="groups=4: must be odd"):
        mean_of_medians(lb.make_policy("oful", bandit, horizon=HORIZON)[0], groups=4)


# Refusals, and what a number may be


@pytest.mark.parametrize("name", ["gopt_elim", "sup_bmm", "explore_then_commit", "crmm", "mean_of_medians", "menu"])
def test_what_was_made_for_other_numbers_is_refused_and_any_kind_of_number_is_taken(name):
    options = {"estimator": "bmm"} if name == "gopt_elim" else {}
    policy, params = lb.make_policy(name, problem(), horizon=4000, **options)
    policy.about.check(params)
    with pytest.raises(ValueError, match=r"make_policy again instead of replacing"):
        policy.about.check(params._replace(horizon=1e6))
    if hasattr(params, "delta"):
        policy.about.check(params._replace(delta=jnp.asarray(params.delta)))


def test_a_wrapper_of_medians_has_the_check_of_its_own_policy():
    few, many = (problem(arms=RNG.uniform(size=(arms, 3))) for arms in (4, 5))
    made = [lb.make_policy("sup_bmm", bandit, horizon=2000) for bandit in (few, many)]
    wrapped = [mean_of_medians(policy, groups=1) for policy, _ in made]
    assert wrapped[0] == wrapped[1]
    for (policy, params), wrapper in zip(made, wrapped, strict=True):
        for delta in (0.1, 0.23, 0.3):
            told = params._replace(delta=delta)
            outcomes = []
            for check, asked in ((policy.about.check, told_to_base(told, 1)), (wrapper.about.check, told)):
                try:
                    outcomes.append(check(asked))
                except ValueError as error:
                    outcomes.append(str(error))
            assert outcomes[0] == outcomes[1]


def test_sgd_draws_the_same_arms_in_both_precisions():
    policy, params = lb.make_policy("sgd", problem(), horizon=HORIZON, exploration=1.0)
    arms = []
    for dtype in (jnp.float32, jnp.float64):
        told = jax.tree.map(lambda leaf, dtype=dtype: jnp.asarray(leaf, dtype), params)
        known = jnp.asarray(ARMS, dtype)
        draw = jax.vmap(policy.select, in_axes=(0, None, None, None))
        arms.append(np.asarray(draw(jax.random.split(KEY, 200), policy.init(known, told), known, told)))
    np.testing.assert_array_equal(*arms)
    assert len(set(arms[0])) == len(ARMS)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_a_gradient_whose_square_overflows_is_shortened_like_any_other(dtype):
    policy, params = lb.make_policy("sgd", problem(), horizon=HORIZON)
    told = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), params)
    arms = jnp.asarray(ARMS, dtype)
    ends = [
        policy.updates[0](policy.init(arms, told), arms, 2, jnp.full(1, payoff, dtype), told).theta
        for payoff in (1e15, 1e36 if dtype == jnp.float32 else 1e300)
    ]
    np.testing.assert_allclose(*ends, rtol=1e-5)
    assert float(jnp.linalg.norm(ends[1])) > 0.5


def test_what_sgd_and_medians_cannot_be_told_is_said():
    fresh = lb.dataset("S1", resample=True)
    with pytest.raises(ValueError, match=r"=None: its default needs a finite \w+, which the bandit has not; give \w+"):
        lb.make_policy("sgd", fresh, horizon=HORIZON)
    with pytest.raises(ValueError, match="exploration=7.0: must be at most 1 with explore='epsilon', a probability"):
        lb.make_policy("sgd", problem(), horizon=HORIZON, exploration=7.0)
    with pytest.raises(ValueError, match=r"base='menu', of floor\(T/n\) = \d+ pulls and delta/2: .*MENU .* needs T >="):
        lb.make_policy("mean_of_medians", problem(), horizon=1000, base="menu")
    with pytest.raises(ValueError, match=r"mean_bound=-7: goes with constants='derived' alone"):
        lb.make_policy("sup_btc", problem(), horizon=HORIZON, constants="paper2020", mean_bound=-7)
    many = lb.LinearBandit(np.ones((6000, 2)), np.ones(2), lb.noise.StudentT(3.0))
    with pytest.raises(ValueError, match="needs orthonormal arms.* products of 6000 arms in 2 dimensions are away"):
        lb.make_policy("robust_ucb", many, horizon=HORIZON)
