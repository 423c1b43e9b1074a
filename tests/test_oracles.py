"""The oracles themselves: against numbers by hand, against scalar loops, and against wrong formulas."""

import dataclasses
import functools
import itertools
import math
import statistics
from collections.abc import Callable

import numpy as np
import pytest
import scipy.linalg
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
    inverse_root,
    median_of_means,
    medians_to_others,
    menu_schedule,
    mom_schedule,
    remark3_rounds,
    self_play,
)

UNIT = np.array([1.0])  # the only arm in one dimension


def feed(oracle: Oracle, feature: Array, *payoffs: float) -> Oracle:
    """One round after another of the same feature."""
    for payoff in payoffs:
        oracle.observe(feature, np.array([payoff]))
    return oracle


# --- schedules and constants by hand ------------------------------------------------------------------------


def test_menu_schedule() -> None:
    assert menu_schedule(20_000, 0.1) == (317, 63)
    assert menu_schedule(20_000, 0.01) == (373, 53)
    assert menu_schedule(391, 0.01) == (278, 1)  # 24 (1 + ln 39100) = 277.8
    with pytest.raises(ValueError, match="391"):
        menu_schedule(100, 0.01)
    with pytest.raises(ValueError, match="391"):
        menu_schedule(390, 0.01)


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_menu_segments_do_not_depend_on_epsilon(epsilon: float) -> None:
    oracle = MenuOracle(np.eye(2), Constants(20_000, 1.0, epsilon=epsilon, delta=0.01, central_moment_bound=1.0))
    assert oracle.segments() == [373] * 53 + [231]
    assert oracle.learns(52)
    assert not oracle.learns(53)


def test_mom_schedule() -> None:
    assert mom_schedule(20_000, 0.1, 1.0) == (141, 141, 64, 2)
    assert mom_schedule(10_000, 0.1, 0.5) == (39, 256, 54, 4)  # 10^1.6 = 39.8; 8 ln 780 = 53.3
    assert mom_schedule(100_000, 0.1, 0.5)[0] == 100  # 10^2, exactly
    assert mom_schedule(128, 0.9, 0.25)[0] <= 4
    assert mom_schedule(16_384, 0.1, 0.25)[0] == 16  # 2^(14 * 2/7); pow gives 15.999999999999998


def test_mom_takes_fewer_longer_epochs() -> None:
    # m = 31 leaves 32 pulls for 52 blocks; at 21 there are 47 for 49, at 20 there are 50 for 48.
    assert mom_schedule(1_000, 0.1, 1.0) == (20, 50, 48, 1)
    assert mom_schedule(24, 0.1, 1.0) == (1, 24, 24, 1)  # 8 ln 20 = 23.97
    with pytest.raises(ValueError, match="longer horizon"):
        mom_schedule(23, 0.1, 1.0)


def test_remark3_rounds() -> None:
    assert remark3_rounds(1_000, 3) == [10, 100, 1_000]
    assert remark3_rounds(100_000, 5) == [10, 100, 1_000, 10_000, 100_000]
    assert remark3_rounds(8, 6) == [2, 3, 4, 5, 6, 8]
    assert remark3_rounds(7, 1) == [7]
    assert remark3_rounds(5, 5) == [1, 2, 3, 4, 5]
    for horizon in (50, 97):
        for epochs in range(1, horizon + 1):
            rounds = remark3_rounds(horizon, epochs)
            assert len(rounds) == epochs
            assert rounds[0] >= 1
            assert rounds[-1] == horizon
            assert all(a < b for a, b in itertools.pairwise(rounds))


def test_tofu_levels() -> None:
    half = Constants(10_000, 1.0, epsilon=0.5, delta=0.01, raw_moment_bound=1.0)
    one = np.eye(1)
    assert TofuOracle(one, half).level(1) == pytest.approx(0.16811, abs=5e-6)
    assert TofuOracle(one, half).level(64) == pytest.approx(2 * 0.16811, abs=1e-5)  # 64^(1/6) = 2
    assert TofuOracle(one, half, level="box").level(1) == pytest.approx(14.50866**-2, rel=1e-6)
    doubled = dataclasses.replace(half, raw_moment_bound=8.0)
    assert TofuOracle(one, doubled).level(1) == pytest.approx(4 * 0.16811, abs=2e-5)  # 8^(2/3)
    assert TofuOracle(one, doubled, level="box").level(1) == pytest.approx((8 / 14.50866) ** 2, rel=1e-6)
    # At epsilon = 1 the level is constant; d enters the proof's logarithm and not the box's.
    whole = dataclasses.replace(half, epsilon=1.0, delta=2 * 4 * 10_000 * math.exp(-16.0))
    assert TofuOracle(np.eye(4), whole).level(99) == pytest.approx(0.25)
    assert TofuOracle(np.eye(4), whole, level="box").level(99) == pytest.approx(1 / (16 - math.log(4)))


def test_crt_levels() -> None:
    whole = Constants(100, 1.0, raw_moment_bound=9.0)
    half = Constants(100, 1.0, epsilon=0.5, raw_moment_bound=8.0)
    assert CrtOracle(UNIT[None], whole).level(16) == pytest.approx(2)
    assert CrtOracle(UNIT[None], whole, scaled=True).level(16) == pytest.approx(6)
    assert CrtOracle(UNIT[None], half).level(8) == pytest.approx(2)
    assert CrtOracle(UNIT[None], half, scaled=True).level(8) == pytest.approx(8)


def test_menu_radius() -> None:
    whole = Constants(20_000, 3.0, ridge=4.0, central_moment_bound=2.0)
    assert MenuOracle(np.eye(2), whole).beta(7) == pytest.approx(36)  # 3 (sqrt(9*2*2) + 2*3)
    half = Constants(20_000, 1.0, epsilon=0.5, central_moment_bound=1.0)
    assert MenuOracle(np.eye(3), half).beta(64) == pytest.approx(57)  # 3 (27^(2/3) 64^(1/6) + 1)


def test_tofu_radius() -> None:
    whole = Constants(1, 1.5, ridge=4.0, delta=8 * math.exp(-4.0), raw_moment_bound=9.0)
    assert TofuOracle(np.eye(4), whole).beta(5) == pytest.approx(48 + 3)  # 4 * 2 * 3 * sqrt(4)
    half = Constants(100, 1.0, epsilon=0.5, delta=800 * math.exp(-8.0), raw_moment_bound=8.0)
    assert TofuOracle(np.eye(4), half).beta(64) == pytest.approx(128 + 1)  # 4 * 2 * 8^(2/3) * 8^(1/3) * 2


def test_mom_radius() -> None:
    whole = Constants(20_000, 3.0, ridge=1.0, central_moment_bound=3.0)
    oracle = MomOracle(np.eye(2), whole)
    assert oracle.beta(8) == pytest.approx(15)  # sqrt(36/2) sqrt(8) + 3
    half = Constants(100_000, 3.0, epsilon=0.5, central_moment_bound=2.25)
    assert mom_schedule(100_000, 0.1, 0.5) == (100, 1_000, 61, 16)
    expected = 9 * 16 ** (-1 / 3) * 2 + 3
    assert MomOracle(np.eye(2), half).beta(4) == pytest.approx(expected)
    paper = MomOracle(np.eye(2), whole, radius="paper")
    paper.gram = np.diag([9.0, 1.0])
    # 6 sqrt(8 ln 2820 / 141) (sqrt(2 (ln 1410 + ln 3)) + sqrt 8) + 3
    assert paper.beta(8) == pytest.approx(6 * 0.671380 * (4.086553 + 2.828427) + 3, rel=1e-5)
    half_paper = MomOracle(np.eye(2), half, radius="paper")
    shrink = (8 * math.log(2_000) / 1_000) ** (1 / 3)
    assert half_paper.beta(4) == pytest.approx(9 * shrink * (math.sqrt(2 * math.log(1_000)) + 2) + 3)


def test_radii_with_a_determinant() -> None:
    # Sixteen unit pulls, ridge 1: det(V)/det(lambda I) = 17, and (1/2) ln 17 = 1.416607.
    base = Constants(100, 3.0, raw_moment_bound=0.5, noise_scale=2.0)
    radii = {
        "valid": 2 * 4.318562 + 0.5 * math.sqrt(2) * 2 + 3,  # ln(16 * 17/.1) = 7.908387
        "paper": 2 * math.sqrt(2 * 4 * (1.416607 + 2.302585 + 0.25 * 4.605170)) + 3,
        "scaled": math.sqrt(0.5) * 2 * (4.318562 + math.sqrt(2)) + 3,
        "oful": 2 * math.sqrt(2 * (1.416607 + 2.302585)) + 3,
    }
    oracles: dict[str, Oracle] = {
        "valid": CrtOracle(UNIT[None], base),
        "paper": CrtOracle(UNIT[None], base, radius="paper"),
        "scaled": CrtOracle(UNIT[None], base, scaled=True),
        "oful": OfulOracle(UNIT[None], base),
    }
    for name, oracle in oracles.items():
        feed(oracle, UNIT, *[0.0] * 16)
        assert oracle.radius == pytest.approx(radii[name], rel=1e-6), name
    # The determinant is taken relative to the ridge's: one pull of norm 2, ridge 4, two dimensions.
    ridged = OfulOracle(np.eye(2), dataclasses.replace(base, ridge=4.0, theta_norm=0.0))
    feed(ridged, np.array([2.0, 0.0]), 0.0)
    assert ridged.radius == pytest.approx(2 * math.sqrt(math.log(2) + 2 * math.log(10)))


def test_crt_radii_at_half() -> None:
    half = Constants(100, 0.0, epsilon=0.5, raw_moment_bound=8.0)
    root = math.sqrt(2 * math.log(8 * 9 / 0.1))  # V is left at lambda I
    assert CrtOracle(UNIT[None], half).beta(8) == pytest.approx(2 * root + 8 * math.sqrt(1.5) * 2)
    assert CrtOracle(UNIT[None], half, scaled=True).beta(8) == pytest.approx(8 * (root + math.sqrt(1.5)))
    inner = math.log(10) + 64 * math.log(100)
    assert CrtOracle(UNIT[None], half, radius="paper").beta(8) == pytest.approx(2 * math.sqrt(2 * 4 * inner))


# --- single steps by hand -----------------------------------------------------------------------------------


def test_indices_before_and_after_a_payoff() -> None:
    constants = Constants(10, 1.5, ridge=4.0, noise_scale=0.0)
    arms = np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    oracle = OfulOracle(arms, constants)
    np.testing.assert_allclose(oracle.indices(arms), [1.5, 3.0, 0.0])  # widths 1/2, 1, 0 times 2 * 1.5
    scaled = OfulOracle(arms, dataclasses.replace(constants, radius_scale=2.0))
    np.testing.assert_allclose(scaled.indices(arms), [3.0, 6.0, 0.0])
    feed(oracle, arms[1], 16.0)  # V = diag(4, 8), centre (0, 32/8)
    np.testing.assert_allclose(oracle.estimate, [0.0, 4.0])
    np.testing.assert_allclose(oracle.indices(arms), [1.5, 8 + 3 * 2 / math.sqrt(8), 0.0])
    feed(scaled, arms[1], 16.0)
    np.testing.assert_allclose(scaled.indices(arms), [3.0, 8 + 6 * 2 / math.sqrt(8), 0.0])


def test_medians_leave_out_the_distance_to_itself() -> None:
    np.testing.assert_allclose(medians_to_others(np.array([[0.0], [1.0], [10.0]]), np.eye(1)), [5.5, 5.0, 9.5])
    # An odd count of others takes the middle one; the distance is in the gram norm.
    many = medians_to_others(np.array([[0.0], [1.0], [10.0], [12.0]]), 4 * np.eye(1))
    np.testing.assert_allclose(many, [20.0, 18.0, 18.0, 22.0])


def test_menu_in_one_dimension() -> None:
    oracle = MenuOracle(UNIT[None], Constants(20_000, 1.0, central_moment_bound=1.0))
    oracle.observe(UNIT, np.array([0.0, 2.0, 20.0]))  # V = 2: estimates 0, 1, 10
    assert oracle.estimate == pytest.approx(1.0)
    np.testing.assert_allclose(oracle.medians, np.sqrt(2) * np.array([5.5, 5.0, 9.5]))
    oracle.observe(UNIT, np.array([3.0, 4.0, -20.0]))  # V = 3: sums 3, 6, 0; medians of (1, 1), (1, 2), (1, 2)
    assert oracle.estimate == pytest.approx(1.0)
    oracle.observe(UNIT, np.array([5.0, -2.0, 8.0]))  # V = 4: sums 8, 4, 8; medians of (1, 0), (1, 1), (1, 0)
    assert oracle.estimate == pytest.approx(2.0)
    assert oracle.gram[0, 0] == 4.0
    assert oracle.count == 3


def test_tofu_in_one_dimension() -> None:
    constants = Constants(10_000, 1.0, epsilon=0.5, delta=0.01, raw_moment_bound=1.0)
    first = TofuOracle(UNIT[None], constants)
    assert feed(first, UNIT, 0.1).estimate == pytest.approx(0.05)  # .0707 <= .16811: kept
    # .25/sqrt 2 = .1768 is dropped at t = 1; .25/sqrt 3 = .1443 <= .1887 is back at t = 2.
    back = feed(TofuOracle(UNIT[None], constants), UNIT, 0.25)
    assert back.estimate == pytest.approx(0.0)
    assert feed(back, UNIT, 0.05).estimate == pytest.approx(0.1)
    # With Remark 3's rounds 100 and 10 000 what was decided on arrival stays until then.
    frozen = feed(TofuOracle(UNIT[None], constants, epochs=2), UNIT, 0.25, 0.05)
    assert frozen.estimate == pytest.approx(0.05 / 3)
    feed(frozen, UNIT, *[0.0] * 97)
    assert frozen.estimate == pytest.approx(0.05 / 100)
    assert feed(frozen, UNIT, 0.0).estimate == pytest.approx(0.3 / 101)
    # A large negative payoff is dropped two-sided, kept one-sided.
    assert feed(TofuOracle(UNIT[None], constants), UNIT, -1.0).estimate == pytest.approx(0.0)
    one_sided = TofuOracle(UNIT[None], constants, two_sided=False)
    assert feed(one_sided, UNIT, -1.0).estimate == pytest.approx(-0.5)
    assert feed(one_sided, UNIT, 3.0).estimate == pytest.approx(-1 / 3)


def test_tofu_tests_every_coordinate_with_the_named_root() -> None:
    # V = [[3, 1], [1, 2]] after (1, 0) and (1, 1); the level is 1 at every round (epsilon 1, b = ln(2dT/delta)).
    first, second = np.array([1.0, 0.0]), np.array([1.0, 1.0])
    constants = Constants(100, 1.0, raw_moment_bound=math.log(2 * 2 * 100 / 0.1))
    # V^(1/2) = (V + sqrt 5 I)/sqrt(5 + 2 sqrt 5), so V^(-1/2) = [[.6155, -.1453], [-.1453, .7608]].
    symmetric = TofuOracle(np.eye(2), constants)
    feed(feed(symmetric, first, 1.7), second, 1.8)
    np.testing.assert_array_equal(symmetric.kept, [[False, True], [True, False]])  # 1.046, .846; .247, 1.108
    root = np.array([[0.615537, -0.145309], [-0.145309, 0.760845]])
    expected = root @ [1.8 * (0.615537 - 0.145309), -1.7 * 0.145309]
    np.testing.assert_allclose(symmetric.estimate, expected, rtol=1e-5)
    # G = [[sqrt 3, 0], [1/sqrt 3, sqrt(5/3)]]; G^-1 (1, 0) = (.5774, -.2582), G^-1 (1, 1) = (.5774, .5164).
    cholesky = TofuOracle(np.eye(2), constants, root="cholesky")
    feed(feed(cholesky, first, 1.7), second, 1.8)
    np.testing.assert_array_equal(cholesky.kept, [[True, False], [True, True]])  # .981, 1.039; .439, .930
    factor = np.array([[math.sqrt(3), 0], [1 / math.sqrt(3), math.sqrt(5 / 3)]])
    sums = np.array([1.7 / math.sqrt(3), (1.8 * 2 / 3 - 1.7 / 3) / math.sqrt(5 / 3)])
    np.testing.assert_allclose(cholesky.estimate, np.linalg.solve(factor.T, sums))
    for oracle, kind in ((symmetric, "symmetric"), (cholesky, "cholesky")):
        whitener = inverse_root(oracle.gram, kind)
        np.testing.assert_allclose(whitener @ oracle.gram @ whitener.T, np.eye(2), atol=1e-14)


def test_crt_in_one_dimension() -> None:
    constants = Constants(100, 1.0, raw_moment_bound=9.0)
    # Levels t^(1/4): 1 at t = 1 drops 1.1 for good; 2^(1/4) = 1.189 keeps -1.15 at t = 2.
    oracle = feed(CrtOracle(UNIT[None], constants), UNIT, 1.1)
    assert oracle.estimate == 0.0
    assert feed(oracle, UNIT, -1.15).estimate == pytest.approx(-1.15 / 3)
    assert feed(oracle, UNIT, *[0.0] * 20).estimate == pytest.approx(-1.15 / 23)
    scaled = CrtOracle(UNIT[None], constants, scaled=True)
    assert feed(scaled, UNIT, 2.9).estimate == pytest.approx(1.45)
    assert feed(scaled, UNIT, 3.6).estimate == pytest.approx(2.9 / 3)  # 3 * 1.189 = 3.57


def test_mom_in_one_dimension() -> None:
    assert median_of_means([1, 3, 100, 200, 5, 7, 1e9], 3) == 6.0  # means 2, 150, 6; the last is left out
    assert median_of_means([1, 3, 100, 200], 2) == 76.0
    oracle = MomOracle(UNIT[None], Constants(1_000, 1.0, central_moment_bound=1.0))
    assert oracle.segments() == [50] * 20
    payoffs = np.concatenate([np.arange(48.0), [1e9, -1e9]])  # 48 blocks of one pull; the last two left out
    oracle.observe(UNIT, payoffs)
    assert oracle.estimate == pytest.approx(23.5 / 2)
    oracle.observe(UNIT, -payoffs + 24.5)
    assert oracle.estimate == pytest.approx(24.5 / 3)
    assert oracle.radius == pytest.approx(math.sqrt(12) * math.sqrt(2) + 1)


# --- whole runs ---------------------------------------------------------------------------------------------

HORIZON = 300


def problem(*, pareto: bool, num_arms: int = 12, dim: int = 4, seed: int = 0) -> tuple[Array, Array]:
    """Arms `[K, d]` and theta `[d]`, uniform, with best mean 3."""
    rng = np.random.default_rng([seed, pareto])
    arms = rng.uniform(size=(num_arms, dim))
    theta = rng.uniform(size=dim)
    return arms, theta * 3.0 / np.max(arms @ theta)


def law(theta: Array, *, pareto: bool, seed: int = 1) -> Callable[[Array, int], float]:
    """Pareto(2) payoffs or t(3) noise around the mean, the pull's own draw whatever the arm."""
    rng = np.random.default_rng(seed)
    draws = 1.0 + rng.pareto(2.0, size=5_000) if pareto else rng.standard_t(3.0, size=5_000)

    def payoff(feature: Array, pull: int) -> float:
        mean = float(feature @ theta)
        return mean / 2.0 * draws[pull] if pareto else mean + draws[pull]

    return payoff


def told(theta: Array, *, pareto: bool, horizon: int = HORIZON, **changes: float) -> Constants:
    """The constants of a problem: epsilon 1/2, b = 4 (3/2)^(3/2) for Pareto; epsilon 1, c = 3, b = 12 for t.

    Every radius is scaled by 0.05 unless changed, so that arms differ and the centre matters.
    """
    constants = Constants(
        horizon,
        float(np.linalg.norm(theta)),
        epsilon=0.5 if pareto else 1.0,
        raw_moment_bound=4 * 1.5**1.5 if pareto else 12.0,
        central_moment_bound=3.0,
        noise_scale=math.sqrt(3.0),
        radius_scale=0.05,
    )
    return dataclasses.replace(constants, **changes)


def tofu_by_loops(
    features: Array, payoffs: Array, constants: Constants, *, root: str, two_sided: bool, level: str
) -> Array:
    """TOFU's estimate after the whole history, one scalar at a time."""
    count, dim = features.shape
    gram = constants.ridge * np.eye(dim)
    for x in features:
        for i in range(dim):
            for j in range(dim):
                gram[i, j] += x[i] * x[j]
    factor = np.real(scipy.linalg.sqrtm(gram)) if root == "symmetric" else scipy.linalg.cholesky(gram, lower=True)
    log = math.log(2 * (dim if level == "proof" else 1) * constants.horizon / constants.delta)
    exponent = 1 / (1 + constants.epsilon) if level == "proof" else 1 / constants.epsilon
    growth = (1 - constants.epsilon) / (2 * (1 + constants.epsilon))
    bound = (constants.raw_moment_bound / log) ** exponent * count**growth
    sums = [0.0] * dim
    for x, y in zip(features, payoffs, strict=True):
        u = np.linalg.solve(factor, x)
        for i in range(dim):
            dropped = abs(u[i] * y) > bound if two_sided else u[i] * y > bound
            sums[i] += 0.0 if dropped else u[i] * y
    return np.linalg.solve(factor.T, np.array(sums))


@pytest.mark.parametrize("pareto", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {"root": "symmetric", "two_sided": True, "level": "proof"},
        {"root": "cholesky", "two_sided": True, "level": "proof"},
        {"root": "symmetric", "two_sided": False, "level": "box"},
    ],
    ids=["default", "cholesky", "box"],
)
def test_tofu_against_loops_and_the_pruning_identity(pareto: bool, options: dict) -> None:
    arms, theta = problem(pareto=pareto)
    constants = told(theta, pareto=pareto, raw_moment_bound=3.0)  # low, so that the box drops some of t(3) too
    oracle = TofuOracle(arms, constants, **options)
    played, payoffs, _ = self_play(oracle, law(theta, pareto=pareto))
    assert 0 < np.sum(~oracle.kept) < oracle.kept.size  # something was dropped, and not everything
    for count in (1, 2, 7, 40, HORIZON):
        oracle.reset()
        for arm, y in zip(played[:count], payoffs[:count], strict=True):
            oracle.observe(arms[arm], np.array([y]))
        history, received = arms[played[:count]], payoffs[:count]
        expected = tofu_by_loops(history, received, constants, **options)
        np.testing.assert_allclose(oracle.estimate, expected, rtol=1e-9, atol=1e-9)
        # theta = V^-1 sum x y - W^T (dropped), and only doubtful payoffs (in the V^-1 norm) are ever dropped.
        whitener = inverse_root(oracle.gram, options["root"])
        products = (whitener @ history.T) * received
        pruned = np.linalg.solve(oracle.gram, history.T @ received)
        pruned -= whitener.T @ np.sum(products * ~oracle.kept, axis=1)
        np.testing.assert_allclose(oracle.estimate, pruned, rtol=1e-9, atol=1e-9)
        widths = np.sqrt(np.einsum("ti,ij,tj->t", history, np.linalg.inv(oracle.gram), history))
        doubtful = widths * np.abs(received) > oracle.level(count)
        assert not np.any(~oracle.kept[:, ~doubtful])


@pytest.mark.parametrize("pareto", [False, True])
def test_tofu_epochs_against_loops(pareto: bool) -> None:
    arms, theta = problem(pareto=pareto)
    constants = told(theta, pareto=pareto)
    oracle = TofuOracle(arms, constants, epochs=8)
    played, payoffs, final = self_play(oracle, law(theta, pareto=pareto))
    rounds = remark3_rounds(HORIZON, 8)
    kept: dict[tuple[int, int], bool] = {}
    differs = 0
    for t in range(1, HORIZON + 1):
        history = arms[played[:t]]
        root = np.real(scipy.linalg.sqrtm(np.linalg.inv(constants.ridge * np.eye(4) + history.T @ history)))
        u = history @ root
        for tau in range(t) if t in rounds else [t - 1]:
            for i in range(4):
                kept[i, tau] = bool(abs(u[tau, i] * payoffs[tau]) <= oracle.level(t))
        now = np.array([[abs(u[tau, i] * payoffs[tau]) <= oracle.level(t) for tau in range(t)] for i in range(4)])
        mask = np.array([[kept[i, tau] for tau in range(t)] for i in range(4)])
        differs += bool(np.any(mask != now))
    np.testing.assert_allclose(root @ np.sum(mask * (u.T * payoffs), axis=1), final, atol=1e-9)
    assert differs > 5  # it is not the full pass in disguise
    every = TofuOracle(arms, constants, epochs=HORIZON)  # an epoch a round is the full pass
    assert_replays(every, *self_play(TofuOracle(arms, constants), law(theta, pareto=pareto)))


def test_menu_against_loops() -> None:
    horizon, delta = 3_000, 0.9
    arms, theta = problem(pareto=False)
    constants = told(theta, pareto=False, horizon=horizon, delta=delta, radius_scale=0.02)
    oracle = MenuOracle(arms, constants)
    played, payoffs, final = self_play(oracle, law(theta, pareto=False))
    k, epochs = 219, 13  # 24 ln(3000 e/.9) = 218.7
    assert oracle.segments() == [k] * epochs + [horizon - k * epochs]
    features = [arms[played[n * k]] for n in range(epochs)]
    gram = np.eye(4) + sum(np.outer(x, x) for x in features)
    estimates = []
    for j in range(k):
        right = sum(payoffs[n * k + j] * features[n] for n in range(epochs))
        estimates.append(np.linalg.solve(gram, right))
    best, centre = math.inf, np.zeros(4)
    for j in range(k):
        distances = []
        for s in range(k):
            if s != j:
                difference = estimates[j] - estimates[s]
                distances.append(math.sqrt(difference @ gram @ difference))
        r = statistics.median(distances)
        if r < best:
            best, centre = r, estimates[j]
    np.testing.assert_allclose(final, centre, rtol=1e-9)


Factory = Callable[[Array, Constants], Oracle]

POLICIES: dict[str, tuple[Factory, bool, int]] = {
    # name: factory, whether scaling the payoffs and constants leaves the choices alone, horizon
    "menu": (MenuOracle, True, 3_000),
    "tofu": (TofuOracle, True, HORIZON),
    "tofu-cholesky": (lambda a, c: TofuOracle(a, c, root="cholesky"), True, HORIZON),
    "tofu-epochs": (lambda a, c: TofuOracle(a, c, epochs=12), True, HORIZON),
    "tofu-box": (lambda a, c: TofuOracle(a, c, level="box", two_sided=False), False, HORIZON),
    "mom": (MomOracle, True, 1_000),
    "mom-paper": (lambda a, c: MomOracle(a, c, radius="paper"), True, 1_000),
    "crt": (CrtOracle, False, HORIZON),
    "crt-paper": (lambda a, c: CrtOracle(a, c, radius="paper"), False, HORIZON),
    "crt-scaled": (lambda a, c: CrtOracle(a, c, scaled=True), True, HORIZON),
    "oful": (OfulOracle, True, HORIZON),
}


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("pareto", [False, True], ids=["t", "pareto"])
def test_scale_equivariance(name: str, pareto: bool) -> None:
    make, equivariant, horizon = POLICIES[name]
    arms, theta = problem(pareto=pareto)
    payoff = law(theta, pareto=pareto)
    constants = told(theta, pareto=pareto, horizon=horizon, radius_scale=1.0 if name == "oful" else 0.05)
    unit = 7.0
    rescaled = dataclasses.replace(
        constants,
        theta_norm=constants.theta_norm * unit,
        raw_moment_bound=constants.raw_moment_bound * unit**constants.power,
        central_moment_bound=constants.central_moment_bound * unit**constants.power,
        noise_scale=constants.noise_scale * unit,
    )
    played, payoffs, final = self_play(make(arms, constants), payoff)
    assert len(set(played)) > 2  # the run is not trivial
    if equivariant:
        assert_replays(make(arms, rescaled), played, payoffs * unit, final * unit)
    else:
        with pytest.raises(AssertionError):
            assert_replays(make(arms, rescaled), played, payoffs * unit, final * unit)


# --- the check has teeth ------------------------------------------------------------------------------------


class ZeroDistance(MenuOracle):
    """MENU with the distance to itself among the others."""

    def update(self, payoffs: Array) -> None:
        super().update(payoffs)
        inverse = np.linalg.inv(self.gram)
        estimates = np.stack(self.payoffs).T @ np.stack(self.features) @ inverse
        differences = estimates[:, None] - estimates[None]
        distances = np.sqrt(np.einsum("jsa,ab,jsb->js", differences, self.gram, differences))
        self.estimate = estimates[np.argmin(np.median(distances, axis=1))]


class Euclidean(MenuOracle):
    """MENU with medians in the Euclidean norm."""

    def update(self, payoffs: Array) -> None:
        super().update(payoffs)
        estimates = np.stack(self.payoffs).T @ np.stack(self.features) @ np.linalg.inv(self.gram)
        self.estimate = estimates[np.argmin(medians_to_others(estimates, np.eye(self.dim)))]


class EveryPull(MenuOracle):
    """MENU adding the arm to the gram once a pull."""

    def observe(self, feature: Array, payoffs: Array) -> None:
        self.gram = self.gram + (self.pulls - 1) * np.outer(feature, feature)
        super().observe(feature, payoffs)


class Twelve(MenuOracle):
    """MENU with the appendix's 12."""

    def beta(self, count: int) -> float:
        c = self.constants
        return 3 * ((12 * self.dim * c.central_moment_bound) ** (1 / c.power) * count**c.growth + c.bias)


class RidgeOnce(MenuOracle):
    """MENU with the factor 3 on the first term only."""

    def beta(self, count: int) -> float:
        return super().beta(count) - 2 * self.constants.bias


class NoGrowth(MenuOracle):
    """MENU without `n^a`."""

    def beta(self, count: int) -> float:
        return super().beta(1)


class OnceOnly(TofuOracle):
    """TOFU that never looks back."""

    def reset(self) -> None:
        super().reset()
        self.refresh_rounds = {1}


class LateLevel(TofuOracle):
    """TOFU counting rounds from 0."""

    def level(self, count: int) -> float:
        return super().level(max(count - 1, 1))


class NoDimension(TofuOracle):
    """TOFU's proof level with `ln(2T/delta)`."""

    def level(self, count: int) -> float:
        c = self.constants
        ratio = math.log(2 * self.dim * c.horizon / c.delta) / math.log(2 * c.horizon / c.delta)
        return super().level(count) * ratio ** (1 / c.power)


class RadiusNoDimension(TofuOracle):
    """TOFU without `sqrt(d)` in the radius."""

    def beta(self, count: int) -> float:
        bias = self.constants.bias
        return (super().beta(count) - bias) / math.sqrt(self.dim) + bias


class RadiusExponents(TofuOracle):
    """TOFU's radius with the exponents of b and of the logarithm exchanged."""

    def beta(self, count: int) -> float:
        c = self.constants
        log = math.log(2 * self.dim * c.horizon / c.delta)
        scale = 4 * math.sqrt(self.dim) * c.raw_moment_bound ** (c.epsilon / c.power)
        return scale * log ** (1 / c.power) * count**c.growth + c.bias


class ShortBlocks(MomOracle):
    """MoM whose blocks take every q-th pull."""

    def update(self, payoffs: Array) -> None:
        used = payoffs[: self.blocks * self.block_size].reshape(self.block_size, self.blocks)
        super().update(used.T.ravel())


class PlainMean(MomOracle):
    """MoM with the mean of the epoch."""

    def update(self, payoffs: Array) -> None:
        super().update(np.full_like(payoffs, np.mean(payoffs)))


class MomOfPulls(MomOracle):
    """MoM's valid radius with r in place of floor(r/q)."""

    def beta(self, count: int) -> float:
        c = self.constants
        ratio = (self.pulls / self.block_size) ** (-c.epsilon / c.power)
        return (super().beta(count) - c.bias) * ratio + c.bias


class MomTen(MomOracle):
    """MoM's radius without the square root of the epochs."""

    def beta(self, count: int) -> float:
        return super().beta(1)


class CrtTwice(CrtOracle):
    """CRT with `t^(1/p)` as its level."""

    def level(self, count: int) -> float:
        return super().level(count**2)


class CrtClips(CrtOracle):
    """CRT that clips a large payoff instead of dropping it."""

    def update(self, payoffs: Array) -> None:
        level = self.level(self.count)
        super().update(np.clip(payoffs, -level, level))


class CrtFixedDelta(CrtOracle):
    """CRT without the union over rounds."""

    def beta(self, count: int) -> float:
        c = self.constants
        union = math.log(count * (count + 1) / c.delta)
        log = self.half_log_det_ratio()
        change = math.sqrt(2 * (log + math.log(1 / c.delta))) - math.sqrt(2 * (log + union))
        return super().beta(count) + self.level(count) * change


class OfulWholeDet(OfulOracle):
    """OFUL with `ln det` in place of half of it."""

    def half_log_det_ratio(self) -> float:
        return 2 * super().half_log_det_ratio()


def swap_moments(oracle: type[Oracle]) -> Factory:
    """The policy told the other moment."""

    def make(arms: Array, constants: Constants) -> Oracle:
        raw, central = constants.raw_moment_bound, constants.central_moment_bound
        return oracle(arms, dataclasses.replace(constants, raw_moment_bound=central, central_moment_bound=raw))

    return make


MUTANTS: dict[str, tuple[Factory, Factory, bool]] = {
    # name: wrong policy, right policy, whether on Pareto payoffs
    "menu-zero-distance": (ZeroDistance, MenuOracle, False),
    "menu-euclidean": (Euclidean, MenuOracle, False),
    "menu-every-pull": (EveryPull, MenuOracle, False),
    "menu-12": (Twelve, MenuOracle, False),
    "menu-ridge-once": (RidgeOnce, MenuOracle, False),
    "menu-no-growth": (NoGrowth, MenuOracle, True),
    "menu-raw-moment": (swap_moments(MenuOracle), MenuOracle, True),
    "tofu-once": (OnceOnly, TofuOracle, True),
    "tofu-late-level": (LateLevel, TofuOracle, True),
    "tofu-no-dimension": (NoDimension, TofuOracle, True),
    "tofu-box-exponent": (lambda a, c: TofuOracle(a, c, level="box"), TofuOracle, True),
    "tofu-one-sided": (lambda a, c: TofuOracle(a, c, two_sided=False), TofuOracle, False),
    "tofu-cholesky": (lambda a, c: TofuOracle(a, c, root="cholesky"), TofuOracle, True),
    "tofu-epochs": (lambda a, c: TofuOracle(a, c, epochs=10), TofuOracle, True),
    "tofu-one-epoch-more": (
        lambda a, c: TofuOracle(a, c, epochs=11),
        lambda a, c: TofuOracle(a, c, epochs=10),
        True,
    ),
    "tofu-radius-dimension": (RadiusNoDimension, TofuOracle, True),
    "tofu-radius-exponents": (RadiusExponents, TofuOracle, True),
    "tofu-central-moment": (swap_moments(TofuOracle), TofuOracle, True),
    "mom-blocks": (ShortBlocks, MomOracle, True),
    "mom-mean": (PlainMean, MomOracle, False),
    "mom-pulls": (MomOfPulls, MomOracle, False),
    "mom-no-root": (MomTen, MomOracle, False),
    "mom-paper": (lambda a, c: MomOracle(a, c, radius="paper"), MomOracle, False),
    "crt-level": (CrtTwice, CrtOracle, True),
    "crt-clips": (CrtClips, CrtOracle, True),
    "crt-union": (CrtFixedDelta, CrtOracle, True),
    "crt-paper": (lambda a, c: CrtOracle(a, c, radius="paper"), CrtOracle, True),
    "crt-scaled": (lambda a, c: CrtOracle(a, c, scaled=True), CrtOracle, True),
    "crt-central-moment": (swap_moments(CrtOracle), CrtOracle, True),
    "oful-whole-det": (OfulWholeDet, OfulOracle, False),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_formula_is_found(name: str) -> None:
    wrong, right, pareto = MUTANTS[name]
    horizon = {"menu": 8_000, "mom": 4_000}.get(name.partition("-")[0], HORIZON)
    arms, theta = problem(pareto=pareto)
    constants = told(theta, pareto=pareto, horizon=horizon)
    if name == "tofu-one-sided":  # negative products u y large enough to matter
        constants = dataclasses.replace(constants, raw_moment_bound=2.0)
    if name.startswith("oful"):
        constants = dataclasses.replace(constants, radius_scale=1.0)
    honest_is_not_found_wrong(right, pareto, constants)
    with pytest.raises(AssertionError):
        assert_replays(right(arms, constants), *self_play(wrong(arms, constants), drawn_before(pareto, horizon)))


def drawn_before(pareto: bool, horizon: int) -> Callable[[Array, int], float]:
    """Payoffs that depend on the mean and the pull alone."""
    _, theta = problem(pareto=pareto)
    rng = np.random.default_rng(3)
    draws = 1.0 + rng.pareto(2.0, horizon) if pareto else rng.standard_t(3.0, horizon)

    def payoff(feature: Array, pull: int) -> float:
        mean = float(feature @ theta)
        return mean / 2 * draws[pull] if pareto else mean + draws[pull]

    return payoff


@functools.cache  # many wrong formulas have one right one
def honest_is_not_found_wrong(right: Factory, pareto: bool, constants: Constants) -> None:
    arms, _ = problem(pareto=pareto)
    found = assert_replays(
        right(arms, constants), *self_play(right(arms, constants), drawn_before(pareto, constants.horizon))
    )
    assert found.ties == 0
    assert found.decisions == len(right(arms, constants).segments())


def test_a_tampered_run_is_found() -> None:
    arms, theta = problem(pareto=True)
    constants = told(theta, pareto=True)
    played, payoffs, final = self_play(TofuOracle(arms, constants), law(theta, pareto=True))
    oracle = TofuOracle(arms, constants)
    assert_replays(oracle, played, payoffs, final)
    assert_replays(oracle, played, payoffs)
    with pytest.raises(AssertionError, match="final estimate"):
        assert_replays(oracle, played, payoffs, final + 1e-6)
    other = played.copy()
    other[100] = (other[100] + 1) % len(arms)
    with pytest.raises(AssertionError, match="pull 101"):
        assert_replays(oracle, other, payoffs)
    with pytest.raises(AssertionError, match="final estimate"):
        assert_replays(oracle, played, np.append(payoffs[:-1], payoffs[-1] / 2 + 0.1), final)
    with pytest.raises(AssertionError, match="horizon"):
        assert_replays(oracle, played[:-1], payoffs[:-1])
    with pytest.raises(AssertionError, match="not finite"):
        assert_replays(oracle, played, np.append(payoffs[:-1], np.nan))


def test_an_epoch_of_two_arms_is_found() -> None:
    arms, theta = problem(pareto=False)
    constants = told(theta, pareto=False, horizon=1_000)
    for oracle in (MenuOracle(arms, constants), MomOracle(arms, constants)):
        played, payoffs, final = self_play(oracle, law(theta, pareto=False))
        assert_replays(oracle, played, payoffs, final)
        played[5] = (played[5] + 1) % len(arms)
        with pytest.raises(AssertionError, match="one decision"):
            assert_replays(oracle, played, payoffs, final)


def test_ties_may_go_either_way() -> None:
    arms = np.ones((3, 2))
    constants = Constants(5, 1.0, noise_scale=1.0)
    oracle = OfulOracle(arms, constants)
    assert assert_replays(oracle, [0] * 5, [1.0] * 5).ties == 0
    assert assert_replays(oracle, [0, 2, 1, 0, 2], [1.0] * 5).ties == 3


def test_changing_sets() -> None:
    # The better of two unit arms swaps every pull: once both are known, the played arm alternates.
    sets = np.stack([np.eye(2) if t % 2 == 0 else np.eye(2)[::-1] for t in range(60)])
    constants = Constants(60, 1.0, noise_scale=0.1)
    played, payoffs, final = self_play(OfulOracle(sets, constants), lambda x, t: float(x @ [1.0, 0.0]))
    np.testing.assert_array_equal(played[20:24], [0, 1, 0, 1])
    assert_replays(OfulOracle(sets, constants), played, payoffs, final)
    with pytest.raises(AssertionError):
        assert_replays(OfulOracle(np.eye(2), constants), played, payoffs, final)
