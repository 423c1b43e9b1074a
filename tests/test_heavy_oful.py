"""heavy_oful against its oracle and against another solver of its problem, and what its derivation promises."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from oracles import assert_replays
from oracles_later import HeavyOfulOracle
from scipy import optimize
from test_later_ridge import ARMS, NOISES, PAYOFFS, changing, constants_of, problem, stepped
from traces import compiled_quickly

import linbet_jax as lb
from linbet_jax import theory
from linbet_jax.policies import FixedSet, heavy_oful
from linbet_jax.policies import heavy_oful as factory

# Nearly every program runs once, and briefly.
quick_compiles = pytest.fixture(autouse=True, scope="module")(compiled_quickly)

HORIZON, SEEDS = 150, 16
CLIPS = 5e-4  # a moment bound so small that many payoffs are clipped, and change sides


def run(bandit, scale=1.0, **options):
    policy, params = lb.make_policy("heavy_oful", bandit, horizon=HORIZON, radius_scale=scale, **options)
    result = lb.simulate(
        policy, params, bandit, horizon=HORIZON, num_seeds=SEEDS, block_size=SEEDS, key=jax.random.key(0),
        trace=True, coverage=True, dtype="float64",
    )  # fmt: skip
    assert not result.health.any()
    return result


def told(bandit, scale, **known):
    return dataclasses.replace(constants_of(bandit, scale), horizon=HORIZON, **known)


@pytest.mark.parametrize("kind", ["fixed", "changing"])
def test_replay(kind):
    bandit, arms = (problem("t(1.6)"), ARMS) if kind == "fixed" else changing()
    for scale, moment in ((1.0, None), (0.1, CLIPS)):
        known = {} if moment is None else {"central_moment_bound": moment}
        result = run(bandit, scale, **known)
        oracle = HeavyOfulOracle(arms, told(bandit, scale, **known))
        for seed in range(2):
            assert_replays(oracle, result.trace.arms[seed], result.trace.payoffs[seed], result.final_estimate[seed])
            assert (oracle.clipped > 10) == (moment is not None)


def test_golden_values():
    # d = 2, T = 1000, lambda = D = S = c = 1; l = 3
    delta = 3 * math.exp(-3)
    known = {"dim": 2, "delta": delta, "ridge": 1.0, "arm_norm": 1.0, "central_moment_bound": 1.0}
    for epsilon, factor, move in ((1.0, 9.07, math.sqrt(12.433212 / 3)), (0.5, 8.33, 5.361)):
        assert theory.heavy_oful_factor(delta=delta, epsilon=epsilon) == pytest.approx(factor, abs=0.005)
        t0 = theory.heavy_oful_move(1000, epsilon=epsilon, **known)
        assert t0 == pytest.approx(move, rel=1e-3)
        beta = theory.heavy_oful_radius(move=t0, delta=delta, epsilon=epsilon, ridge=1.0, theta_norm=1.0)
        assert beta == pytest.approx(1 + 3 * factor * t0, rel=1e-3)


HEAVY = [*PAYOFFS[:5], *(10 * np.random.default_rng(4).standard_t(1.5, size=75))]


def gradient(history, center, ridge):
    features, payoffs, levels = history[:, :-2], history[:, -2], history[:, -1]
    return ridge * center - np.clip(payoffs - features @ center, -levels, levels) @ features


@functools.cache
def small(moment=1e-3):
    policy, params = lb.make_policy("heavy_oful", problem(), horizon=HORIZON, central_moment_bound=moment, ridge=1.0)
    return policy, params, jnp.asarray(np.concatenate([ARMS[:-1], np.zeros((1, 4))]))


def test_every_estimate_is_the_minimiser_whatever_the_payoffs():
    policy, params, arms = small()
    indices = np.random.default_rng(0).integers(0, 12, size=len(HEAVY))
    indices[:3] = 0, 1, 11  # payoffs beyond all bounds, and an arm of zeros
    changes, moves = 0, []
    for before, after in stepped(policy, params, arms, HEAVY, indices):
        history, center = np.asarray(after.history), np.asarray(after.center)
        assert np.max(np.abs(gradient(history, center, params.ridge))) < 1e-8
        assert bool(policy.finite(after))
        sides = [
            np.abs(history[:, -2] - history[:, :-2] @ np.asarray(state.center)) <= history[:, -1]
            for state in (before, after)
        ]
        changes += np.sum((sides[0] != sides[1])[: int(before.pulls)])
        moves.append(np.max(np.abs(center - np.asarray(before.center))))
    assert 0.01 < max(moves) < 10  # of payoffs of 1e200 too
    assert changes > 5


def test_another_solver_finds_the_same_minimiser():
    policy, params, arms = small()
    indices = np.random.default_rng(1).integers(0, 12, size=25)
    state = list(stepped(policy, params, arms, HEAVY[5:30], indices))[-1][1]
    features, payoffs, levels = state.history[:25, :-2], state.history[:25, -2], state.history[:25, -1]

    def loss(theta):
        losses = optax.losses.huber_loss(features @ theta, payoffs, delta=levels)
        return 0.5 * params.ridge * jnp.sum(theta**2) + jnp.sum(losses)

    solver = optax.lbfgs()
    value_and_grad = optax.value_and_grad_from_state(loss)

    @jax.jit
    def step(theta, memory):
        value, rates = value_and_grad(theta, state=memory)
        updates, memory = solver.update(rates, memory, theta, value=value, grad=rates, value_fn=loss)
        return optax.apply_updates(theta, updates), memory

    theta = jnp.zeros(4)
    memory = solver.init(theta)
    for _ in range(60):
        theta, memory = step(theta, memory)
    np.testing.assert_allclose(state.center, theta, rtol=1e-7, atol=1e-9)
    residuals = np.abs(payoffs - features @ theta)
    assert 3 < np.sum(residuals > levels) < 23


def test_without_clipping_it_is_weighted_ridge_regression_and_with_one_arm_huber_s_location():
    policy, params, arms = small(1e100)
    indices, payoffs = np.random.default_rng(2).integers(0, 11, size=20), HEAVY[5:25]
    state = list(stepped(policy, params, arms, payoffs, indices))[-1][1]
    features, weights = np.asarray(arms)[indices], np.sum(np.asarray(state.history[:20, :4]) ** 2, axis=1)
    weights = weights / np.sum(features**2, axis=1)
    assert np.min(weights) < 0.5
    gram = (features * weights[:, None]).T @ features + params.ridge * np.eye(4)
    np.testing.assert_allclose(gram, policy_gram(state, arms, params), rtol=1e-9)
    expected = np.linalg.solve(gram, features.T @ (weights * np.asarray(payoffs)))
    np.testing.assert_allclose(state.center, expected, rtol=1e-8)

    policy, params, _ = small()
    along = jnp.zeros((12, 4)).at[:, 0].set(1.0)
    state = list(stepped(policy, params, along, payoffs, indices))[-1][1]
    root = optimize.brentq(
        lambda theta: gradient(np.asarray(state.history), np.array([theta, 0, 0, 0]), params.ridge)[0],
        -1e3, 1e3, xtol=1e-13,
    )  # fmt: skip
    np.testing.assert_allclose(state.center, [root, 0, 0, 0], rtol=1e-9, atol=1e-12)


def policy_gram(state, arms, params):
    return np.asarray(FixedSet(4).with_weights().gram(state.design, arms, params.ridge))


def test_the_unit_of_the_payoffs_and_the_order_of_the_arms_do_not_matter():
    p, order = 1.5, np.random.default_rng(1).permutation(12)
    plain = run(problem(), 0.03, central_moment_bound=0.1)
    larger = run(problem(unit=8.0), 0.03, central_moment_bound=0.1 * 8.0**p)
    np.testing.assert_array_equal(larger.trace.arms, plain.trace.arms)
    np.testing.assert_allclose(larger.final_estimate, 8.0 * plain.final_estimate, rtol=1e-9)
    assert np.unique(plain.trace.arms).size > 3
    turned = run(problem(arms=ARMS[order]), 0.03, central_moment_bound=0.1)
    np.testing.assert_array_equal(order[turned.trace.arms], plain.trace.arms)


@pytest.mark.parametrize("noise", NOISES)
def test_literal_regions_hold_theta_star(noise):
    for scale in (1.0, 1e-9):  # plain play, and play that is nearly greedy: the region is the literal one again
        assert np.max(run(problem(noise), scale).coverage.worst_ratio) * scale < 1


def test_a_search_that_does_not_end_is_not_sound(monkeypatch):
    monkeypatch.setitem(factory.__wrapped__.__globals__, "_READINGS", 1)  # the history is read once
    _, params, arms = small()
    policy = factory.__wrapped__(FixedSet(4), history=HORIZON)
    states = [after for _, after in stepped(policy, params, arms, HEAVY[5:], np.arange(75) % 7)]
    assert bool(policy.finite(states[0]))
    assert not bool(policy.finite(states[-1]))


def test_wrong_use_is_refused():
    with pytest.raises(ValueError, match=r"central_moment_bound=0.0: must be positive for heavy_oful"):
        lb.make_policy("heavy_oful", problem(), horizon=HORIZON, central_moment_bound=0)
    policy, params = lb.make_policy("heavy_oful", problem(), horizon=HORIZON)
    with pytest.raises(ValueError, match=r"central_moment_bound=0.0: must be positive for heavy_oful"):
        policy.about.check(params._replace(central_moment_bound=0.0))
    with pytest.raises(ValueError, match="horizon=151"):
        lb.simulate(policy, params, problem(), horizon=HORIZON + 1, num_seeds=1, key=jax.random.key(0))
    assert heavy_oful(FixedSet(4), history=9) == heavy_oful(FixedSet(4), history=9)
