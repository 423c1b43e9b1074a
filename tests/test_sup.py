"""sup_bmm, sup_btc and the forms without stages against their oracle, and what stages must do."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles_arms import SupTold, replay_sup, stage_estimates, sup_epochs
from scipy import stats
from traces import compiled_quickly

import linbet_jax as lb
from linbet_jax import theory
from linbet_jax.policies import sup_bmm, sup_btc

SEEDS = 4
HORIZONS = {"btc": 500, "bmm": 2_600}
RNG = np.random.default_rng(5)
ARMS, THETA = RNG.uniform(-1.0, 1.0, size=(6, 3)), np.array([0.6, -0.5, 0.4])
LEVELS = (np.arange(500) + 0.5) / 500
RESIDUALS = {1.0: stats.t(2.1).ppf(LEVELS), 0.5: stats.t(1.6).ppf(LEVELS)}
CASES = [
    (name, constants)
    for name, constants in itertools.product(
        ("sup_btc", "sup_bmm", "btc_ucb", "bmm_ucb"), ("derived", "paper2020")
    )
]  # fmt: skip

quick_compiles = pytest.fixture(autouse=True, scope="module")(compiled_quickly)


def problem(epsilon=0.5, unit=1.0, order=slice(None)):
    noise = lb.noise.Empirical(0.1 * unit * RESIDUALS[epsilon])
    return lb.LinearBandit(ARMS[order], unit * THETA, noise, epsilon=epsilon)


def run(name, bandit, scale=1.0, **options):
    horizon = HORIZONS["bmm" if "bmm" in name else "btc"]
    policy, params = lb.make_policy(name, bandit, horizon=horizon, radius_scale=scale, **options)
    result = lb.simulate(
        policy, params, bandit, horizon=horizon, num_seeds=SEEDS, block_size=SEEDS, key=jax.random.key(0), trace=True,
        dtype="float64",
    )  # fmt: skip
    assert not result.health.any()
    return result


def told(name, bandit, scale, constants="derived"):
    medians = "bmm" in name
    return SupTold(
        HORIZONS["bmm" if medians else "btc"],
        bandit.central_moment_bound if medians else bandit.raw_moment_bound,
        bandit.epsilon,
        float(np.linalg.norm(bandit.theta_star)),
        float(np.max(np.abs(ARMS @ bandit.theta_star))),
        medians,
        literal=constants == "paper2020",
        staged=name.startswith("sup"),
        radius_scale=scale,
    )


@pytest.mark.parametrize(("name", "constants"), CASES)
def test_replay(name, constants):
    gone, used = set(), 0
    several = ((0.5, 1.0), (1.0, 0.2), (0.5, 0.3)) if "btc" in name else ((0.5, 1.0), (1.0, 0.7), (1.0, 0.2))
    for epsilon, scale in several:
        bandit = problem(epsilon)
        result = run(name, bandit, scale, constants=constants)
        known = told(name, bandit, scale, constants)
        for seed in range(2):
            estimate, recorded, eliminated = replay_sup(
                ARMS, known, result.trace.arms[seed], result.trace.payoffs[seed]
            )
            np.testing.assert_allclose(result.final_estimate[seed], estimate, rtol=1e-8, atol=1e-10)
            rounds = [number for stage in recorded for number in stage]
            assert len(rounds) == len(set(rounds))  # a round enters one stage
            gone |= eliminated
            used = max(used, sum(bool(stage) for stage in recorded))
            if scale == 1.0:
                best = int(np.argmax(ARMS @ THETA))
                assert best not in eliminated
    if name.startswith("sup"):
        assert used > 1
        assert gone or (name, constants) == ("sup_bmm", "paper2020")  # whose widths are never that small here


@functools.cache
def stepper(name, **options):
    policy, params = lb.make_policy(name, problem(1.0), horizon=HORIZONS[name[-3:]], **options)
    params = params._replace(radius_scale={"sup_btc": 0.1, "sup_bmm": 0.8}[name])
    params = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), params)

    @jax.jit
    def step(state, payoffs):
        return policy.update(state, jnp.asarray(ARMS), state.arm, payoffs, params)

    return policy, params, step


@pytest.mark.parametrize("name", ["sup_btc", "sup_bmm"])
def test_a_stage_knows_its_own_rows_alone(name):
    policy, params, step = stepper(name, constants="paper2020" if name == "sup_btc" else "derived")
    rng, copies = np.random.default_rng(1), policy.pulls_per_epoch
    state = policy.init(jnp.asarray(ARMS), params)
    for _ in range(100):
        payoffs = ARMS[int(state.arm)] @ THETA + 0.1 * rng.normal(size=copies)
        after = step(state, jnp.asarray(payoffs))
        # The payoffs of this row decide neither which stage it enters nor the widths there.
        other = step(state, jnp.asarray(payoffs + 5.0))
        entered = int(state.stage)
        rest = np.arange(len(state.stages.counts)) != entered
        for old, new, moved in zip(state.stages, after.stages, other.stages, strict=True):
            np.testing.assert_array_equal(old[rest], new[rest])
            np.testing.assert_array_equal(new[rest], moved[rest])
        for field in ("counts", "noise", "leverages"):
            np.testing.assert_array_equal(getattr(after.stages, field), getattr(other.stages, field))
        assert after.stages.counts.sum() - state.stages.counts.sum() == (entered < len(rest))
        state = after
    assert np.sum(np.any(np.asarray(state.stages.counts) > 0, axis=1)) > 1


@pytest.mark.parametrize("share", [0.02, 0.4])
def test_few_or_many_payoffs_beyond_the_level_are_dropped_alike(share):
    policy, params, _ = stepper("sup_btc")
    params = params._replace(radius_scale=1.0)  # one stage takes all rows
    known = SupTold(HORIZONS["btc"], float(params.raw_moment_bound), 1.0, 0.0, 0.0, False)
    update, state = jax.jit(policy.update), policy.init(jnp.asarray(ARMS), params)
    rng, rows, many, dropped = np.random.default_rng(7), [], 0, 0
    for t in range(90):
        payoff = np.where(rng.uniform() < share, 40.0, 1.0) * rng.normal()
        state = update(state, jnp.asarray(ARMS), t % 3, jnp.asarray([payoff]), params)
        rows.append((t % 3, np.array([payoff])))
        values, _ = stage_estimates(ARMS, known, rows, t + 1, state.stages.counts.shape[0])
        np.testing.assert_allclose(state.stages.values[0], values, rtol=1e-9, atol=1e-12)
        sizes = np.sort([abs(y[0]) for x, y in rows if x == 0])
        many += sizes.size > 8 and sizes[-9] > 5
        dropped += sizes[-1] > 5
    assert dropped > 30
    assert (many > 20) == (share > 0.1)  # more than the eight that are judged one by one


@pytest.mark.parametrize("name", ["sup_btc", "sup_bmm"])
def test_payoffs_beyond_measure_stay_numbers(name):
    policy, params, step = stepper(name)
    state = policy.init(jnp.asarray(ARMS), params)
    for payoff in (1e200, 0.3, np.inf, -np.inf, -1e200, *np.linspace(0.0, 0.5, 12)):
        payoffs = np.full(policy.pulls_per_epoch, 0.2)
        payoffs[0] = payoff
        state = step(state, jnp.asarray(payoffs))
        assert bool(policy.finite(state))
    assert np.max(np.abs(state.stages.values)) < 5


@pytest.mark.parametrize("name", ["sup_btc", "sup_bmm", "btc_ucb", "bmm_ucb"])
def test_the_unit_of_the_payoffs_does_not_matter(name):
    plain, larger = run(name, problem(), 0.1), run(name, problem(unit=8.0), 0.1)
    np.testing.assert_array_equal(larger.trace.arms, plain.trace.arms)
    np.testing.assert_allclose(larger.final_estimate, 8.0 * plain.final_estimate, rtol=1e-9, atol=1e-12)


def test_one_arm_is_never_eliminated_and_orders_do_not_matter():
    order = np.random.default_rng(1).permutation(6)
    plain, turned = run("sup_btc", problem(), 0.1), run("sup_btc", problem(order=order), 0.1)
    np.testing.assert_array_equal(order[turned.trace.arms], plain.trace.arms)
    alone = lb.LinearBandit([[1.0, 0.0]], [0.5, 0.0], lb.noise.StudentT(3.0))
    policy, params = lb.make_policy("sup_btc", alone, horizon=60)
    result = lb.simulate(policy, params, alone, horizon=60, num_seeds=1, key=jax.random.key(0), dtype="float64")
    assert not result.health.any()
    assert np.all(result.regret == 0)


def test_schedules():
    for horizon, delta in ((60, 0.1), (2_600, 0.1), (10_000, 0.01)):
        for name, literal in (("sup_bmm", False), ("sup_bmm", True), ("bmm_ucb", False)):
            if literal and horizon == 60:
                continue
            staged = name == "sup_bmm"
            known = SupTold(horizon, 1.0, 1.0, 1.0, 1.0, True, literal=literal, staged=staged, delta=delta)
            found = theory.sup_bmm_schedule(horizon, num_arms=6, delta=delta, literal=literal, staged=staged)
            assert found == sup_epochs(known, 6)
    assert [theory.sup_stages(rounds) for rounds in (1, 2, 3, 10_000)] == [1, 1, 1, 9]
    assert theory.sup_log(10_000, num_arms=20, num_stages=9, delta=0.1) == pytest.approx(np.log(3.6e7))


def test_wrong_use_is_refused():
    with pytest.raises(ValueError, match="constants='paper': allowed are 'derived' and 'paper2020'"):
        lb.make_policy("sup_btc", problem(), horizon=100, constants="paper")
    sets = np.tile(ARMS, (4, 1, 1))
    changing = lb.LinearBandit.from_contexts(sets, THETA, lb.noise.StudentT(3.0))
    for name in ("sup_btc", "sup_bmm", "btc_ucb", "bmm_ucb"):
        with pytest.raises(ValueError, match=f"bandit: {name} keeps what its estimates need by the arms of one"):
            lb.make_policy(name, changing, horizon=100)
        with pytest.raises(ValueError, match=r"mean_bound=-1: (must be|.*knows)|option mean_bound=-1"):
            lb.make_policy(name, problem(), horizon=100, mean_bound=-1)
    with pytest.raises(ValueError, match=r"horizon=9: medians of 6 arms at delta=0.1 need at least 17 pulls"):
        lb.make_policy("sup_bmm", problem(), horizon=9)
    policy, params = lb.make_policy("sup_bmm", problem(), horizon=1_000)
    with pytest.raises(ValueError, match=r"delta=0.001, horizon=1000: they need other epochs than this sup_bmm"):
        policy.about.check(params._replace(delta=0.001))
    policy, params = lb.make_policy("sup_btc", problem(), horizon=1_000)
    with pytest.raises(ValueError, match=r"horizon=9000: it needs 9 stages, but this sup_btc has 6"):
        policy.about.check(params._replace(horizon=9_000.0))
    (note,) = lb.make_policy("sup_btc", problem(unit=9.0), horizon=1_000, constants="paper2020")[0].about.notes
    assert "assume sqrt(ridge) S <= 1" in note
    assert sup_btc(history=9) == sup_btc(history=9)
    schedule = theory.sup_bmm_schedule(100, num_arms=6, delta=0.1)
    assert sup_bmm(schedule) == sup_bmm(schedule)
