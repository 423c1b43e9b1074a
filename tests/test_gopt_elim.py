"""Elimination on G-optimal designs: recorded runs against the oracle, and what every phase must do."""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles_elim import Told, replay
from scipy import stats
from test_replay import make_bandit, raw_arrays
from traces import compiled_quickly

import linbet_jax as lb
from linbet_jax import theory
from linbet_jax.policies import gopt_elim

SEEDS, HORIZON = 4, 1300  # six phases of 20 to 640 pulls and 40 pulls more
KEY = jax.random.key(0)

quick_compiles = pytest.fixture(autouse=True, scope="module")(compiled_quickly)


@pytest.mark.parametrize(
    ("problem", "options", "horizon"),
    [
        ("S1", {}, HORIZON),
        ("S3", {}, HORIZON),
        ("S3", {"estimator": "btc", "leftover": "uniform"}, HORIZON),
        ("S1", {"estimator": "bmm"}, 2_000),
    ],
)
def test_replay(problem, options, horizon):
    bandit, (arms, theta) = make_bandit(problem), raw_arrays(problem)
    means = arms @ theta
    best = int(np.argmax(means))
    eliminated = missed = 0
    for scale in (1.0, 0.1):  # one compiled program: the scale is traced
        policy, params = lb.make_policy("gopt_elim", bandit, horizon=horizon, radius_scale=scale, **options)
        result = lb.simulate(
            policy, params, bandit, horizon=horizon, num_seeds=SEEDS, block_size=SEEDS, key=KEY, trace=True,
            coverage=True, dtype="float64",
        )  # fmt: skip
        assert not result.health.any()
        told = Told(
            horizon, float(np.linalg.norm(theta)), params.raw_moment_bound, params.central_moment_bound,
            bandit.epsilon, radius_scale=scale,
        )  # fmt: skip
        for seed in range(SEEDS):
            phases, estimate = replay(arms, told, result.trace.arms[seed], result.trace.payoffs[seed], **options)
            np.testing.assert_allclose(result.final_estimate[seed], estimate, rtol=1e-8, atol=1e-10)
            ratios = [np.abs(phase.estimates - means) / (scale * phase.widths) for phase in phases]
            np.testing.assert_allclose(result.coverage.worst_ratio[seed], np.max(ratios), rtol=1e-7)
            ends = np.cumsum([phase.counts.sum() * phase.copies for phase in phases])
            misses = [end for end, ratio in zip(ends, ratios, strict=True) if ratio.max() > 1]
            assert result.coverage.first_miss[seed] == min(misses, default=0)
            missed += bool(misses)
            facts = dict(policy.about.facts)
            assert facts["phases"] == len(phases)
            assert (facts["n_1"], facts["n_last"]) == (20, phases[-1].counts.sum())
            rank = np.linalg.matrix_rank(arms)
            assert all(phase.certificate <= 1.7 * rank for phase in phases)
            largest = [phase.widths[phase.after].max() for phase in phases]
            assert all(later < sooner for sooner, later in itertools.pairwise(largest))
            eliminated += sum(phase.before.sum() - phase.after.sum() for phase in phases)
            if scale == 1.0:
                for phase in phases:
                    assert np.all(np.abs(phase.estimates - means) <= phase.widths)  # the good event, as nearly always
                    assert phase.after[best]
                    assert np.all(means[best] - means[phase.after] <= 4 * phase.widths.max())
    assert eliminated
    assert missed or options  # with a tenth of the widths


# One program for everything below: six arms in three dimensions, four phases of 6 to 48 pulls and ten pulls more.

PULLS, RUNS = 100, 32


@functools.cache
def made():
    arms = np.random.default_rng(0).uniform(size=(6, 3))
    bandit = lb.LinearBandit(arms, np.ones(3), lb.noise.StudentT(3.0))
    return lb.make_policy("gopt_elim", bandit, horizon=PULLS)


def steps(arms, theta, params, noise):
    policy, _ = made()

    def step(state, eta):
        index = policy.select(KEY, state, arms, params)
        payoff = arms[index] @ theta + eta
        return policy.update(state, arms, index, payoff[None], params), (index, payoff, state.widths, state.active)

    return jax.lax.scan(step, policy.init(arms, params), noise)


played_batch = jax.jit(jax.vmap(steps, in_axes=(None, None, None, 0)))


def played(arms, theta, noise, **changes):
    params = made()[1]._replace(**changes)
    params = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), params)
    noise = np.broadcast_to(noise, (RUNS, PULLS))
    return jax.tree.map(np.asarray, played_batch(*map(jnp.asarray, (arms, theta)), params, jnp.asarray(noise)))


def noise_of(seed=0):
    return np.random.default_rng(seed).standard_t(3.0, size=(RUNS, PULLS))


def told_of(**changes):
    params = made()[1]._replace(**changes)
    return Told(
        PULLS, params.theta_norm, params.raw_moment_bound, params.central_moment_bound, params.epsilon, params.delta,
        params.ridge, params.radius_scale,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["orthonormal", "line", "zero arms", "one arm", "half"])
def test_degenerate_sets(kind):
    arms, changes = np.zeros((6, 3)), {"radius_scale": 0.3}
    if kind == "orthonormal":  # beside zero arms: successive elimination with Catoni's means
        arms[:3] = np.eye(3)
    elif kind == "line":  # one dimension: the sign is all that is to be found
        arms[:, 0] = [1.0, -1.0, 0.5, -0.5, 0.25, 0.0]
    elif kind == "one arm":  # six times: every arm ties, and none may go
        arms[:] = 1.0
        changes = {"radius_scale": 0.0}
    elif kind == "half":  # another order of moments, another ridge
        arms[:] = np.random.default_rng(1).uniform(-1.0, 1.0, size=(6, 3))
        changes = {"epsilon": 0.4, "ridge": 0.01, "radius_scale": 0.05, "raw_moment_bound": 60.0}
    theta = np.array([3.0, 1.0, -2.0])
    state, (indices, payoffs, widths, active) = played(arms, theta, noise_of(), **changes)
    assert np.all(np.isfinite(state.values))
    assert np.all(np.isfinite(widths))
    assert np.all(active.any(axis=-1))
    if kind == "one arm":
        assert active.all()
    for run in range(3):
        phases, _ = replay(arms, told_of(**changes), indices[run], payoffs[run])
        np.testing.assert_allclose(state.values[run], phases[-1].estimates, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(widths[run, -11], phases[-1].widths, rtol=1e-9)
        np.testing.assert_array_equal(state.active[run], phases[-1].after)
        np.testing.assert_array_equal(state.fitted[run], phases[-1].counts)
    if kind == "line":
        assert np.all(state.active[:, [0]])
        assert not state.active[:, 1].any()


def test_widths_fall_as_the_rate_says():
    arms = np.random.default_rng(0).uniform(size=(6, 3))
    known = {
        "ridge": 1e-6,
        "theta_norm": 0.0,
        "raw_moment_bound": 3.0,
        "central_moment_bound": 3.0,
        "radius_scale": 9.0,
    }
    for epsilon in (1.0, 0.5):
        _, (_, _, widths, _) = played(arms, np.zeros(3), noise_of(), epsilon=epsilon, **known)
        largest = widths[0, [0, 6, 18, 42]].max(axis=-1)
        logs = [math.log(2 * 6 * l * (l + 1) / 0.1) for l in (1, 2, 3, 4)]  # noqa: E741
        ratios = largest[1:] / largest[:-1] / np.divide(logs[1:], logs[:-1]) ** (epsilon / (1 + epsilon))
        np.testing.assert_allclose(ratios, 2 ** (-epsilon / (1 + epsilon)), rtol=0.05)


def test_the_best_arm_is_lost_in_no_more_than_delta_of_the_runs():
    arms, theta, delta = np.random.default_rng(3).uniform(size=(6, 3)), np.array([0.5, -0.2, 0.4]), 0.5
    best, lost, runs = int(np.argmax(arms @ theta)), 0, 0
    c = 3.0
    for seed in range(6):  # two-point noise, the worst that its second moment allows
        q = 0.02
        high = math.sqrt(c * (1 - q) / q)
        noise = np.where(np.random.default_rng(seed).uniform(size=(RUNS, PULLS)) < q, high, -high * q / (1 - q))
        state, _ = played(arms, theta, noise, delta=delta, central_moment_bound=c, raw_moment_bound=c + 1.0)
        lost += int(np.sum(~state.active[:, best]))
        runs += RUNS
    assert stats.binomtest(lost, runs, delta, alternative="greater").pvalue > 1e-3


def test_the_unit_of_the_payoffs():
    arms, theta, noise, unit = np.random.default_rng(0).uniform(size=(6, 3)), np.ones(3), noise_of(), 8.0
    for epsilon in (1.0, 0.5):
        p, known = 1 + epsilon, {"raw_moment_bound": 10.0, "central_moment_bound": 3.0, "theta_norm": 1.7}
        one, (first, *_) = played(arms, theta, noise, epsilon=epsilon, radius_scale=0.1, **known)
        scaled = {name: value * (unit if name == "theta_norm" else unit**p) for name, value in known.items()}
        other, (second, *_) = played(arms, unit * theta, unit * noise, epsilon=epsilon, radius_scale=0.1, **scaled)
        np.testing.assert_array_equal(first, second)
        np.testing.assert_array_equal(one.active, other.active)
        np.testing.assert_allclose(other.values, unit * one.values, rtol=1e-9)


@pytest.mark.parametrize("size", [1e200, 1e300, np.inf])
def test_payoffs_beyond_measure_stay_numbers(size):
    arms, noise = np.vstack([np.eye(3), -np.eye(3)]), np.random.default_rng(0).standard_t(3.0, size=PULLS)
    noise[[3, 40, 41]] = size, -size, size
    state, (indices, _, widths, _) = played(arms, np.ones(3), noise)
    for leaf in (state.values, widths, state.offset, state.images, state.tally.total):
        assert np.all(np.isfinite(leaf))
    assert np.all((indices >= 0) & (indices < 6))
    assert np.all(np.abs(state.values) < 1e4)  # an influence is a logarithm


def test_what_ends_a_phase_is_computed_there_alone():
    """The number of the pull stays one for the whole batch, so `vmap` leaves a branch and makes no select of both."""
    arms, params = jnp.ones((6, 3)), jax.tree.map(jnp.asarray, made()[1])
    text = str(jax.make_jaxpr(jax.vmap(steps, in_axes=(None, None, None, 0)))(arms, jnp.ones(3), params, noise_of()))
    scan = text[text.index("scan[") :]
    assert "cond[" in scan
    assert "while[" in scan[scan.index("cond[") :]  # the design of the next phase


def test_schedules():
    assert [theory.median_copies(failure) for failure in (0.3, 1e-2, 1e-4, 1e-6)] == [1, 19, 49, 79]
    phases = theory.elimination_phases(10_000, dim=10, num_arms=20, delta=0.1)
    assert [phase.rows for phase in phases] == [20 * 2**i for i in range(8)]
    assert theory.elimination_phases(20, dim=10, num_arms=20, delta=0.1) == phases[:1]
    shares = [theory.elimination_failure(number, num_arms=7, delta=0.1) for number in range(1, 2000)]
    assert 0.0999 < 7 * sum(shares) < 0.1
    medians = theory.elimination_phases(10_000, dim=10, num_arms=20, delta=0.1, medians=True)
    assert [phase.copies for phase in medians] == [
        theory.median_copies(0.1 / (20 * number * (number + 1))) for number in range(1, 1 + len(medians))
    ]


def test_wrong_use_is_refused():
    bandit = make_bandit("S1")
    with pytest.raises(ValueError, match=r"horizon=19: the first phase .* needs T >= 20 \(2 d\)"):
        lb.make_policy("gopt_elim", bandit, horizon=19)
    with pytest.raises(ValueError, match=r"horizon=400: .* needs T >= \d+ \(2 d rows of \d+ pulls each\)"):
        lb.make_policy("gopt_elim", bandit, horizon=400, estimator="bmm")
    with pytest.raises(ValueError, match="estimator='mom': allowed are 'catoni', 'btc', 'bmm'"):
        lb.make_policy("gopt_elim", bandit, horizon=400, estimator="mom")
    with pytest.raises(ValueError, match="leftover='best': allowed are 'greedy', 'uniform'"):
        lb.make_policy("gopt_elim", bandit, horizon=400, leftover="best")
    changing = lb.LinearBandit.changing_sets(
        lambda key, t: jnp.ones((3, 2)), np.ones(2), lb.noise.StudentT(3.0), arm_norm=2.0
    )
    with pytest.raises(ValueError, match="gopt_elim plans the pulls of a whole phase ahead, so it needs one decision"):
        lb.make_policy("gopt_elim", changing, horizon=400)
    phases = theory.elimination_phases(400, dim=2, num_arms=3, delta=0.1)
    with pytest.raises(ValueError, match="policy gopt_elim: init .*made for a fixed decision set"):
        lb.simulate(gopt_elim(2, phases), made()[1], changing, horizon=90, num_seeds=1, key=KEY)
    policy, params = lb.make_policy("gopt_elim", bandit, horizon=1_000)
    policy.about.check(params._replace(horizon=1_200.0, delta=0.2))  # the same phases
    with pytest.raises(ValueError, match="horizon=2000: they need other phases than this gopt_elim was made for"):
        policy.about.check(params._replace(horizon=2_000.0))
    policy, params = lb.make_policy("gopt_elim", bandit, horizon=1_000, estimator="bmm")
    with pytest.raises(ValueError, match=r"delta=0\.01, horizon=1000: they need other phases"):
        policy.about.check(params._replace(delta=0.01))
