"""Every policy's recorded runs, replayed by the plain NumPy oracles: same decisions, same final estimates."""

import contextlib
import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import (
    Array,
    Constants,
    CrtOracle,
    MenuOracle,
    MomOracle,
    OfulOracle,
    Oracle,
    TofuOracle,
    assert_replays,
    menu_schedule,
    mom_schedule,
    remark3_rounds,
)
from scipy import integrate, stats
from traces import quickly

import linbet_jax as lb
from linbet_jax.simulation import launches

SEEDS = 2

# name: arms, dimension, best mean, whether Pareto(2) payoffs with epsilon 1/2 (else t(3) noise with epsilon 1)
PROBLEMS = {
    "S1": (20, 10, 4.00, False),
    "S2": (100, 20, 7.40, False),
    "S3": (20, 10, 3.10, True),
    "S4": (100, 20, 11.39, True),
}


def raw_arrays(name: str) -> tuple[Array, Array]:
    """Arms `[K, d]` and theta `[d]` drawn here, by the recipe of the paper's data sets."""
    num_arms, dim, best, pareto = PROBLEMS[name]
    rng = np.random.default_rng([num_arms, dim, int(pareto)])
    arms = rng.uniform(size=(num_arms, dim))
    theta = rng.uniform(size=dim)
    return arms, theta * (best / np.max(arms @ theta))


def make_bandit(name: str) -> Any:
    arms, theta = raw_arrays(name)
    if PROBLEMS[name][3]:
        return lb.LinearBandit(arms=arms, theta_star=theta, noise=lb.noise.Pareto(2.0), epsilon=0.5)
    return lb.LinearBandit(arms=arms, theta_star=theta, noise=lb.noise.StudentT(3.0), epsilon=1.0)


def constants_of(name: str, horizon: int, radius_scale: float, delta: float, ridge: float) -> Constants:
    """The constants the policies are told, from scratch: closed forms, and quadrature for one central moment."""
    _, _, best, pareto = PROBLEMS[name]
    _, theta = raw_arrays(name)
    if pareto:
        scale = best / 2.0
        raw = 2.0 * scale**1.5 / (2.0 - 1.5)  # alpha s^p/(alpha - p)
        # E|y - 2s|^1.5 = s^1.5 int_1^inf |x - 2|^1.5 2 x^-3 dx; with x = w^-2, int_0^1 4 |1 - 2 w^2|^1.5 dw.
        halves = (0.0, math.sqrt(0.5)), (math.sqrt(0.5), 1.0)
        pieces = [integrate.quad(lambda w: 4.0 * abs(1.0 - 2.0 * w * w) ** 1.5, *ends)[0] for ends in halves]
        central = scale**1.5 * sum(pieces)
    else:
        central = 3.0  # nu/(nu - 2)
        raw = central + best**2
    return Constants(
        horizon,
        float(np.linalg.norm(theta)),
        epsilon=0.5 if pareto else 1.0,
        delta=delta,
        ridge=ridge,
        radius_scale=radius_scale,
        raw_moment_bound=raw,
        central_moment_bound=central,
        noise_scale=1.0 if pareto else math.sqrt(3.0),
    )


Factory = Callable[[Array, Constants], Oracle]


@dataclasses.dataclass(frozen=True)
class Case:
    """A policy with options, its oracle, and a horizon that keeps the oracle under a second or so.

    Cases that differ in numbers alone have one horizon, and problem: one program serves them.
    """

    policy: str
    options: dict[str, Any]
    oracle: Factory
    horizon: int
    delta: float = 0.1
    ridge: float = 1.0


CASES = {
    "menu": Case("menu", {}, MenuOracle, 3_000),
    "menu-odd": Case("menu", {}, MenuOracle, 3_000, delta=0.9),  # 219 pulls an epoch: an even count of others
    "menu-ridge": Case("menu", {}, MenuOracle, 3_000, delta=0.5, ridge=3.0),
    "tofu": Case("tofu", {}, TofuOracle, 600),
    "tofu-full": Case("tofu", {"method": "full"}, TofuOracle, 400),
    "tofu-long": Case("tofu", {}, TofuOracle, 1_200),
    "tofu-ridge": Case("tofu", {}, TofuOracle, 600, delta=0.01, ridge=0.3),
    "tofu-cholesky": Case("tofu", {"root": "cholesky"}, lambda a, c: TofuOracle(a, c, root="cholesky"), 600),
    "tofu-cholesky-full": Case(
        "tofu", {"root": "cholesky", "method": "full"}, lambda a, c: TofuOracle(a, c, root="cholesky"), 400
    ),
    "tofu-box": Case(
        "tofu",
        {"level": "box", "two_sided": False},
        lambda a, c: TofuOracle(a, c, level="box", two_sided=False),
        600,
    ),
    "tofu-box-full": Case(
        "tofu",
        {"level": "box", "two_sided": False, "method": "full"},
        lambda a, c: TofuOracle(a, c, level="box", two_sided=False),
        400,
    ),
    "tofu-box-two-sided": Case("tofu", {"level": "box"}, lambda a, c: TofuOracle(a, c, level="box"), 600),
    "tofu-one-sided": Case("tofu", {"two_sided": False}, lambda a, c: TofuOracle(a, c, two_sided=False), 600),
    "tofu-epochs": Case("tofu", {"epochs": 12}, lambda a, c: TofuOracle(a, c, epochs=12), 1_000),
    "tofu-one-epoch": Case("tofu", {"epochs": 1}, lambda a, c: TofuOracle(a, c, epochs=1), 400),
    "tofu-every-epoch": Case("tofu", {"epochs": 300}, TofuOracle, 300),
    "tofu-epochs-cholesky": Case(
        "tofu",
        {"epochs": 8, "root": "cholesky"},
        lambda a, c: TofuOracle(a, c, epochs=8, root="cholesky"),
        600,
    ),
    "tofu-epochs-box": Case(
        "tofu",
        {"epochs": 8, "level": "box", "two_sided": False},
        lambda a, c: TofuOracle(a, c, epochs=8, level="box", two_sided=False),
        600,
    ),
    "mom": Case("mom", {}, MomOracle, 5_000),
    "mom-long": Case("mom", {}, MomOracle, 20_000, delta=0.05),
    "mom-short": Case("mom", {}, MomOracle, 1_000, ridge=2.0),  # fewer, longer epochs at epsilon 1
    "mom-paper": Case("mom", {"radius": "paper"}, lambda a, c: MomOracle(a, c, radius="paper"), 5_000),
    "crt": Case("crt", {}, CrtOracle, 800),
    "crt-paper": Case("crt", {"radius": "paper"}, lambda a, c: CrtOracle(a, c, radius="paper"), 800),
    "crt-scaled": Case("crt", {"scaled": True}, lambda a, c: CrtOracle(a, c, scaled=True), 800),
    "crt-ridge": Case("crt", {}, CrtOracle, 800, delta=0.01, ridge=0.3),
    "oful": Case("oful", {}, OfulOracle, 800),
    "oful-ridge": Case("oful", {}, OfulOracle, 800, delta=0.01, ridge=3.0),
}

SCALES = (1.0, 0.1, 0.01)


def runs() -> list[tuple[str, str]]:
    """Case and problem: several problems for the defaults, problems in turn for the others."""
    several = {"menu": ["S1", "S4"], "tofu": ["S1", "S4"], "mom": ["S2", "S3"], "crt": ["S2", "S3"]}
    several |= {"tofu-ridge": ["S1"], "crt-ridge": ["S3"], "oful": ["S1"], "oful-ridge": ["S1"]}
    turns = ["S3", "S1", "S4", "S3", "S1"]
    chosen = []
    for number, case in enumerate(CASES):
        problems = several.get(case) or [turns[number % len(turns)]]
        chosen += [(case, problem) for problem in problems]
    return chosen


def run(case: Case, bandit: Any, radius_scale: float, optimised: bool = False) -> Any:
    policy, params = lb.make_policy(
        case.policy,
        bandit,
        horizon=case.horizon,
        delta=case.delta,
        ridge=case.ridge,
        radius_scale=radius_scale,
        **case.options,
    )
    with contextlib.nullcontext() if optimised else quickly():
        return lb.simulate(
            policy,
            params,
            bandit,
            horizon=case.horizon,
            num_seeds=SEEDS,
            block_size=SEEDS,
            key=jax.random.key(0),
            trace=True,
            dtype="float64",
        )


def assert_curves(result: Any, gaps: Array) -> None:
    """Regret and payoff curves `[S, R]` are the running sums of the trace's gaps `[S, T]` and payoffs."""
    payoffs = np.asarray(result.trace.payoffs)
    at = np.asarray(result.rounds) - 1
    assert result.rounds[-1] == payoffs.shape[1]
    assert np.all(np.diff(result.rounds) > 0)
    assert np.all(np.asarray(result.health) == 0)
    np.testing.assert_allclose(result.regret, np.cumsum(gaps, axis=1)[:, at], rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(result.payoff, np.cumsum(payoffs, axis=1)[:, at], rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize(("case_name", "problem"), runs())
def test_replay(case_name: str, problem: str) -> None:
    case = CASES[case_name]
    bandit = make_bandit(problem)
    arms, theta = raw_arrays(problem)
    means = arms @ theta
    for radius_scale in SCALES:  # one compiled program: the scale is traced
        result = run(case, bandit, radius_scale)
        played = np.asarray(result.trace.arms)
        payoffs = np.asarray(result.trace.payoffs)
        assert payoffs.dtype == np.float64
        assert played.shape == payoffs.shape == (SEEDS, case.horizon)
        constants = constants_of(problem, case.horizon, radius_scale, case.delta, case.ridge)
        for seed in range(SEEDS if radius_scale == SCALES[-1] else 1):  # an oracle takes longer than the program
            oracle = case.oracle(arms, constants)
            found = assert_replays(oracle, played[seed], payoffs[seed], result.final_estimate[seed])
            assert found.ties == 0  # random arms have no exact ties to lose
        assert_curves(result, np.max(means) - means[played])


@pytest.mark.parametrize(("name", "case_name"), [("S1", "menu"), ("S2", "mom"), ("S3", "tofu"), ("S4", "crt")])
def test_replay_of_the_papers_data_sets(name: str, case_name: str) -> None:
    bandit = lb.dataset(name)
    case = CASES[case_name]
    launches._PROGRAMS.clear()
    result = run(case, bandit, 0.03, optimised=True)  # as users' programs are; the other replays compile quickly
    launches._PROGRAMS.clear()
    arms = np.asarray(bandit.arms)
    means = arms @ np.asarray(bandit.theta_star)
    best = PROBLEMS[name][2]
    assert np.max(means) == pytest.approx(best, rel=1e-12)
    constants = dataclasses.replace(
        constants_of(name, case.horizon, 0.03, case.delta, case.ridge),
        theta_norm=float(np.linalg.norm(bandit.theta_star)),
    )
    for seed in range(SEEDS):
        oracle = case.oracle(arms, constants)
        assert_replays(oracle, result.trace.arms[seed], result.trace.payoffs[seed], result.final_estimate[seed])
    assert_curves(result, best - means[np.asarray(result.trace.arms)])


@pytest.mark.parametrize(("case_name", "problem"), [("crt", "S2"), ("crt", "S3")])
def test_payoffs_follow_the_law_around_the_means_of_the_arms_played(case_name: str, problem: str) -> None:
    result = run(CASES[case_name], make_bandit(problem), 0.1)
    arms, theta = raw_arrays(problem)
    means = (arms @ theta)[np.asarray(result.trace.arms)]
    payoffs = np.asarray(result.trace.payoffs)
    if PROBLEMS[problem][3]:
        standard, law = 2.0 * payoffs / means, stats.pareto(2.0)  # y = (mean/2) X
    else:
        standard, law = payoffs - means, stats.t(3.0)
    assert stats.kstest(standard.ravel(), law.cdf).pvalue > 1e-3


@pytest.mark.parametrize(("case_name", "problem"), [("menu", "S4"), ("tofu", "S4"), ("mom", "S3"), ("crt", "S3")])
def test_a_radius_of_zero_is_greedy_from_the_lowest_arm(case_name: str, problem: str) -> None:
    # Shows that the first radius is scaled too: with centre 0, any other radius than 0 plays the longest arm.
    case = CASES[case_name]  # the program of a replay above
    arms, _ = raw_arrays(problem)
    assert np.argmax(np.linalg.norm(arms, axis=1)) != 0
    result = run(case, make_bandit(problem), 0.0)
    constants = constants_of(problem, case.horizon, 0.0, case.delta, case.ridge)
    for seed in range(SEEDS):
        assert result.trace.arms[seed, 0] == 0
        oracle = case.oracle(arms, constants)
        assert_replays(oracle, result.trace.arms[seed], result.trace.payoffs[seed], result.final_estimate[seed])


def test_a_full_buffer_is_run_again() -> None:
    case = CASES["tofu"]
    result = run(dataclasses.replace(case, options={"capacity": 2}), make_bandit("S3"), 0.1)
    assert result.reruns >= 1
    arms, _ = raw_arrays("S3")
    for seed in range(SEEDS):
        oracle = case.oracle(arms, constants_of("S3", case.horizon, 0.1, case.delta, case.ridge))
        assert_replays(oracle, result.trace.arms[seed], result.trace.payoffs[seed], result.final_estimate[seed])


@pytest.mark.parametrize("case_name", ["tofu", "crt-scaled"])
def test_replay_of_a_changing_set_that_does_not_change(case_name: str) -> None:
    # The way through a policy for any decision sets, at the dimension and horizon of the fixed one.
    case = CASES[case_name]
    arms, theta = raw_arrays("S3")
    bandit = lb.LinearBandit.changing_sets(
        lambda key, t: jnp.asarray(arms),
        theta,
        lb.noise.Pareto(2.0),
        arm_norm=float(np.max(np.linalg.norm(arms, axis=1))),
        mean_bound=PROBLEMS["S3"][2],
        epsilon=0.5,
    )
    for radius_scale in (0.1, 0.01):
        result = run(case, bandit, radius_scale)
        played = np.asarray(result.trace.arms)
        constants = constants_of("S3", case.horizon, radius_scale, case.delta, case.ridge)
        for seed in range(SEEDS):
            oracle = case.oracle(arms, constants)
            assert_replays(oracle, played[seed], result.trace.payoffs[seed], result.final_estimate[seed])
        means = arms @ theta
        assert_curves(result, np.max(means) - means[played])


@pytest.mark.parametrize("case_name", ["tofu", "tofu-epochs", "tofu-full", "tofu-box", "crt-paper", "oful"])
def test_replay_on_changing_sets(case_name: str) -> None:
    # Arms that turn with the pull, the same for every replication, so that they can be rebuilt here.
    num_arms, horizon = 6, 300
    case = dataclasses.replace(CASES[case_name], horizon=horizon)

    def angles(t: Any) -> Any:
        return 0.7 * t + 2.0 * math.pi * jnp.arange(num_arms) / num_arms

    def sampler(key: jax.Array, t: jax.Array) -> jax.Array:
        del key
        turn = angles(t)
        return jnp.stack([jnp.cos(turn), jnp.sin(turn), 0.5 * jnp.cos(3.0 * turn)], axis=-1)

    theta = np.array([1.0, -0.5, 0.8])
    bandit = lb.LinearBandit.changing_sets(
        sampler, theta, lb.noise.StudentT(3.0), arm_norm=math.sqrt(1.25), mean_bound=2.0, epsilon=1.0
    )
    turn = 0.7 * np.arange(1, horizon + 1)[:, None] + 2.0 * np.pi * np.arange(num_arms) / num_arms
    sets = np.stack([np.cos(turn), np.sin(turn), 0.5 * np.cos(3.0 * turn)], axis=-1)
    means = sets @ theta
    for radius_scale in (0.1, 0.01):
        result = run(case, bandit, radius_scale)
        constants = Constants(
            horizon,
            float(np.linalg.norm(theta)),
            delta=case.delta,
            ridge=case.ridge,
            radius_scale=radius_scale,
            raw_moment_bound=7.0,  # 3 + 2^2
            central_moment_bound=3.0,
            noise_scale=math.sqrt(3.0),
        )
        played = np.asarray(result.trace.arms)
        for seed in range(SEEDS):
            oracle = case.oracle(sets, constants)
            assert_replays(oracle, played[seed], result.trace.payoffs[seed], result.final_estimate[seed])
        assert_curves(result, np.max(means, axis=1) - means[np.arange(horizon), played])


@pytest.mark.parametrize(("num_arms", "dim"), [(1, 1), (1, 3), (3, 1)])
def test_one_arm_and_one_dimension(num_arms: int, dim: int) -> None:
    arms = np.linspace(0.5, 1.5, num_arms * dim).reshape(num_arms, dim)
    theta = np.linspace(1.0, 2.0, dim)
    bandit = lb.LinearBandit(arms=arms, theta_star=theta, noise=lb.noise.StudentT(3.0), epsilon=1.0)
    constants = Constants(
        400,
        float(np.linalg.norm(theta)),
        radius_scale=0.1,
        raw_moment_bound=3.0 + float(np.max(arms @ theta)) ** 2,
        central_moment_bound=3.0,
        noise_scale=math.sqrt(3.0),
    )
    names = {(1, 1): ["mom"], (1, 3): ["tofu"], (3, 1): ["menu", "tofu", "tofu-cholesky", "crt"]}
    for name in names[num_arms, dim]:
        case = dataclasses.replace(CASES[name], horizon=400)
        result = run(case, bandit, 0.1)
        for seed in range(SEEDS):
            oracle = case.oracle(arms, constants)
            assert_replays(oracle, result.trace.arms[seed], result.trace.payoffs[seed], result.final_estimate[seed])


# --- what a replay cannot see -------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.9, 0.1, 0.01])
def test_schedules_of_the_library(delta: float) -> None:
    for horizon in [*range(400, 3_000, 37), 1_024, 2_187, 10_000, 16_384, 20_000, 78_125, 100_000, 10**6]:
        assert (lb.theory.menu_groups(horizon, delta), lb.theory.menu_epochs(horizon, delta)) == menu_schedule(
            horizon, delta
        )
        for epsilon in (0.1, 0.25, 0.5, 0.9, 1.0):
            found = lb.theory.mom_schedule(horizon, delta=delta, epsilon=epsilon)
            assert tuple(found)[:4] == mom_schedule(horizon, delta, epsilon), (horizon, epsilon)


@pytest.mark.parametrize("horizon", [1, 2, 7, 64, 1_000, 1_024, 9_999, 10_000, 100_000])
def test_remark3_rounds_of_the_library(horizon: int) -> None:
    for epochs in [*range(1, min(horizon, 40) + 1), horizon // 2, horizon if horizon < 2_000 else 100]:
        if epochs >= 1:
            expected = remark3_rounds(horizon, epochs) if epochs <= 100 or horizon <= 2_000 else None
            if expected is not None:
                assert list(lb.theory.tofu_retruncation_rounds(horizon, epochs)) == expected, epochs


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_radii_and_levels_of_the_library(epsilon: float, seed: int) -> None:
    # A replay sees radii only through the arms they choose; here they agree to rounding, at any constants.
    rng = np.random.default_rng(seed)
    dim, count = int(rng.integers(1, 30)), int(rng.integers(1, 2_000))
    c = Constants(
        int(rng.integers(2_000, 100_000)),
        theta_norm=rng.uniform(0.1, 5.0),
        epsilon=epsilon,
        delta=rng.uniform(0.001, 0.5),
        ridge=rng.uniform(0.1, 5.0),
        raw_moment_bound=rng.uniform(0.1, 50.0),
        central_moment_bound=rng.uniform(0.1, 50.0),
        noise_scale=rng.uniform(0.1, 5.0),
    )
    features = rng.normal(size=(dim, dim))
    gram = features.T @ features + c.ridge * np.eye(dim)
    ratio = math.log(np.linalg.det(gram / c.ridge))

    def beta(oracle: Oracle) -> float:
        oracle.gram = gram
        return oracle.beta(count)

    arms = np.eye(dim)
    theory = lb.theory
    region = {"ridge": c.ridge, "theta_norm": c.theta_norm}
    raw = {"raw_moment_bound": c.raw_moment_bound, "epsilon": epsilon}
    central = {"central_moment_bound": c.central_moment_bound, "epsilon": epsilon}
    told = {"horizon": c.horizon, "delta": c.delta}
    pairs = [
        (beta(MenuOracle(arms, c)), theory.menu_radius(count, dim=dim, **central, **region)),
        (beta(TofuOracle(arms, c)), theory.tofu_radius(count, dim=dim, **raw, **told, **region)),
    ]
    for level in ("proof", "box"):
        expected = TofuOracle(arms, c, level=level).level(count)
        pairs.append((expected, theory.tofu_level(count, dim=dim, **raw, **told, level=level)))
    for options in ({}, {"radius": "paper"}, {"scaled": True}):
        expected = beta(CrtOracle(arms, c, **options))
        found = theory.crt_radius(count, log_det_ratio=ratio, **raw, **told, **region, **options)
        pairs.append((expected, found))
    for scaled in (False, True):
        expected = CrtOracle(arms, c, scaled=scaled).level(count)
        pairs.append((expected, theory.crt_level(count, **raw, scaled=scaled)))
    for radius in ("valid", "paper"):
        mom = MomOracle(arms, c, radius=radius)
        shape = {"epochs": mom.epochs, "pulls": mom.pulls, "block_pulls": mom.block_size}
        found = theory.mom_radius(
            count, log_det_ratio=ratio, delta=c.delta, radius=radius, **shape, **central, **region
        )
        pairs.append((beta(mom), found))
    found = theory.oful_radius(log_det_ratio=ratio, delta=c.delta, noise_scale=c.noise_scale, **region)
    pairs.append((beta(OfulOracle(arms, c)), found))
    for i, (expected, found) in enumerate(pairs):
        assert found == pytest.approx(expected, rel=1e-9), i
