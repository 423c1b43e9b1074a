"""Schedules, radii and bounds: numbers worked out by hand or with mpmath at 50 digits, and host against traced."""

import math

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from linbet_jax import theory
from linbet_jax.theory import smallest_odd

mpmath.mp.dps = 50
E = mpmath.e


def test_menu_schedule():
    assert (theory.menu_groups(20_000, 0.1), theory.menu_epochs(20_000, 0.1)) == (317, 63)
    assert (theory.menu_groups(20_000, 0.01), theory.menu_epochs(20_000, 0.01)) == (373, 53)


def test_small_functions_by_hand():
    assert [theory.growth_exponent(e) for e in (1.0, 0.5, 0.25)] == pytest.approx([0, 1 / 6, 0.3], rel=1e-15)
    radii = [theory.initial_radius(ridge=ridge, theta_norm=s) for ridge, s in ((1.0, 1.7), (4.0, 1.5), (0.25, 3.0))]
    assert radii == pytest.approx([1.7, 3.0, 1.5], rel=1e-15)
    assert (theory.menu_groups(10**6, 0.1), theory.menu_epochs(10**6, 0.1)) == (411, 2433)  # 24 (1 + ln 10^7) = 410.83
    # 8 ln(2/delta) = 23.97, 42.39, 11.09
    assert [theory.mom_smallest_horizon(delta) for delta in (0.1, 0.01, 0.5)] == [24, 43, 12]
    # 10^1.6 = 39.8, 8 ln 780 = 53.3; 10^(12/7) = 51.8, 8 ln 1020 = 55.4
    assert theory.mom_schedule(10_000, delta=0.1, epsilon=0.5) == (39, 256, 54, 4, False)
    assert theory.mom_schedule(10**6, delta=0.1, epsilon=0.25) == (51, 19_607, 56, 350, False)
    levels = [theory.crt_level(t, raw_moment_bound=9.0, epsilon=e) for t, e in ((16.0, 1.0), (27.0, 0.5), (32.0, 0.25))]
    assert levels == pytest.approx([2, 3, 4], rel=1e-14)
    assert theory.tofu_retruncation_rounds(1000, 3) == (10, 100, 1000)
    assert theory.tofu_retruncation_rounds(16, 4) == (2, 4, 8, 16)
    assert theory.tofu_retruncation_rounds(5, 3) == (2, 3, 5)
    # (5/3)^2 = 2.78, (5/3)^5 = 12.9, 2^3
    smallest = [theory.lower_bound_smallest_horizon(dim=d, epsilon=e) for d, e in ((20, 1.0), (20, 0.25), (24, 0.5))]
    assert smallest == [3, 13, 8]


@pytest.mark.parametrize(("delta", "smallest"), [(0.01, 391), (0.1, 336), (0.5, 297)])
def test_menu_smallest_horizon(delta, smallest):  # P11
    assert theory.menu_smallest_horizon(delta) == smallest
    assert smallest >= 256 + 24 * math.log(math.e / delta) > smallest - 1
    assert theory.menu_epochs(smallest, delta) >= 1


@pytest.mark.parametrize(
    ("epoch", "dim", "moment", "epsilon", "ridge", "norm"),
    [(1, 10, 3, "1", "1", "1.7"), (63, 20, 3, "1", "2", "0.4"), (33, 10, 5, "0.5", "0.25", "3")],
)
def test_menu_radius(epoch, dim, moment, epsilon, ridge, norm):
    eps, lam, s = (mpmath.mpf(x) for x in (epsilon, ridge, norm))
    expected = 3 * (
        (9 * dim * moment) ** (1 / (1 + eps)) * epoch ** ((1 - eps) / (2 * (1 + eps))) + mpmath.sqrt(lam) * s
    )
    got = theory.menu_radius(
        float(epoch),
        dim=dim,
        central_moment_bound=float(moment),
        epsilon=float(epsilon),
        ridge=float(ridge),
        theta_norm=float(norm),
    )
    assert got == pytest.approx(float(expected), rel=1e-14)


@pytest.mark.parametrize(("pull", "dim", "epsilon"), [(1, 10, "0.5"), (77, 20, "0.5"), (10_000, 1, "1")])
def test_tofu_level_and_radius(pull, dim, epsilon):
    eps, b, horizon, delta = mpmath.mpf(epsilon), mpmath.mpf("7.72"), 10_000, mpmath.mpf("0.1")
    growth = mpmath.mpf(pull) ** ((1 - eps) / (2 * (1 + eps)))
    log_union = mpmath.log(2 * dim * horizon / delta)
    known = {"horizon": 10_000.0, "delta": 0.1, "dim": dim, "raw_moment_bound": 7.72, "epsilon": float(epsilon)}
    proof = (b / log_union) ** (1 / (1 + eps)) * growth
    box = (b / mpmath.log(2 * horizon / delta)) ** (1 / eps) * growth
    assert theory.tofu_level(float(pull), **known) == pytest.approx(float(proof), rel=1e-13)
    assert theory.tofu_level(float(pull), **known, level="box") == pytest.approx(float(box), rel=1e-13)
    radius = 4 * mpmath.sqrt(dim) * b ** (1 / (1 + eps)) * log_union ** (eps / (1 + eps)) * growth + 2
    assert theory.tofu_radius(float(pull), **known, ridge=1.0, theta_norm=2.0) == pytest.approx(
        float(radius), rel=1e-13
    )


def test_tofu_first_level():  # P15 and the worked example: b_1 at eps = .5, b = 1, T = 1e4, delta = .01, d = 1
    level = theory.tofu_level(1.0, horizon=1e4, delta=0.01, dim=1, raw_moment_bound=1.0, epsilon=0.5)
    assert level == pytest.approx(0.16811, abs=5e-6)
    assert level >= 0.1


def test_levels_agree_where_the_exponents_do():
    known = {"horizon": 1e4, "delta": 0.1, "dim": 1, "raw_moment_bound": 3.0}
    assert theory.tofu_level(9.0, epsilon=1.0, **known) != theory.tofu_level(9.0, epsilon=1.0, **known, level="box")
    half = theory.tofu_level(9.0, epsilon=0.5, **known)
    assert half != pytest.approx(theory.tofu_level(9.0, epsilon=0.5, **known, level="box"), rel=1e-3)


@pytest.mark.parametrize(("horizon", "epochs"), [(100, 1), (100, 7), (100, 100), (1, 1), (1000, 999)])
def test_retruncation_rounds(horizon, epochs):
    rounds = theory.tofu_retruncation_rounds(horizon, epochs)
    assert len(rounds) == epochs == len(set(rounds))
    assert rounds[-1] == horizon
    assert list(rounds) == sorted(rounds)
    if epochs == horizon:
        assert rounds == tuple(range(1, horizon + 1))


def test_mom_schedule():
    schedule = theory.mom_schedule(20_000, delta=0.1, epsilon=1.0)
    assert schedule == (141, 141, 64, 2, False)
    short = theory.mom_schedule(200, delta=0.1, epsilon=1.0)
    assert short.shortened
    assert short.block_pulls >= 1
    longer = short.epochs + 1
    assert (200 // longer) // math.ceil(8 * math.log(2 * longer / 0.1)) == 0
    assert theory.mom_schedule(theory.mom_smallest_horizon(0.1), delta=0.1, epsilon=0.5).epochs == 1
    with pytest.raises(ValueError, match=r"horizon=23: MoM at delta=0.1 needs at least 24 pulls"):
        theory.mom_schedule(23, delta=0.1, epsilon=0.5)


@pytest.mark.parametrize(("epoch", "epsilon"), [(1, "1"), (30, "0.5"), (141, "0.25")])
def test_mom_radius(epoch, epsilon):
    eps, c = mpmath.mpf(epsilon), mpmath.mpf(3)
    known = {
        "epochs": 141.0,
        "pulls": 141,
        "block_pulls": 2,
        "delta": 0.1,
        "central_moment_bound": 3.0,
        "epsilon": float(epsilon),
    }
    known |= {"ridge": 4.0, "theta_norm": 1.5, "log_det_ratio": 7.25}
    valid = (12 * c) ** (1 / (1 + eps)) * mpmath.mpf(2) ** (-eps / (1 + eps)) * mpmath.sqrt(epoch) + 3
    assert theory.mom_radius(float(epoch), **known) == pytest.approx(float(valid), rel=1e-14)
    error = (12 * c) ** (1 / (1 + eps)) * (8 * mpmath.log(2820) / 141) ** (eps / (1 + eps))
    paper = error * (mpmath.sqrt(2 * (mpmath.log(1410) + mpmath.mpf("3.625"))) + mpmath.sqrt(epoch)) + 3
    assert theory.mom_radius(float(epoch), **known, radius="paper") == pytest.approx(float(paper), rel=1e-14)


@pytest.mark.parametrize(("pull", "epsilon"), [(1, "0.5"), (50, "0.5"), (9999, "1")])
def test_crt_radius(pull, epsilon):
    eps, b = mpmath.mpf(epsilon), mpmath.mpf("7.72")
    p = 1 + eps
    known = {"horizon": 1e4, "log_det_ratio": 7.25, "delta": 0.1, "raw_moment_bound": 7.72, "epsilon": float(epsilon)}
    known |= {"ridge": 4.0, "theta_norm": 1.5}
    alpha = mpmath.mpf(pull) ** (1 / (2 * p))
    root = mpmath.sqrt(2 * (mpmath.mpf("3.625") + mpmath.log(10 * pull * (pull + 1))))
    valid = alpha * root + b * mpmath.sqrt(p) * alpha + 3
    assert theory.crt_radius(float(pull), **known) == pytest.approx(float(valid), rel=1e-14)
    scaled = b ** (1 / p) * alpha * (root + mpmath.sqrt(p)) + 3
    assert theory.crt_radius(float(pull), **known, scaled=True) == pytest.approx(float(scaled), rel=1e-14)
    inner = mpmath.mpf("3.625") + mpmath.log(10) + b**2 * mpmath.log(10_000)
    paper = 2 * mpmath.sqrt(2 * mpmath.mpf(pull) ** (1 / p) * inner) + 3
    assert theory.crt_radius(float(pull), **known, radius="paper") == pytest.approx(float(paper), rel=1e-14)
    level = theory.crt_level(float(pull), raw_moment_bound=7.72, epsilon=float(epsilon), scaled=True)
    assert level == pytest.approx(float(b ** (1 / p) * alpha), rel=1e-14)


@pytest.mark.parametrize("scale", [0.0, 1.0, 2.5])
def test_oful_radius(scale):
    expected = scale * math.sqrt(2 * (3.625 + math.log(10))) + 3
    got = theory.oful_radius(log_det_ratio=7.25, delta=0.1, noise_scale=scale, ridge=4.0, theta_norm=1.5)
    assert got == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize(("horizon", "epsilon"), [(1000, "1"), (20_000, "1"), (10_000, "0.5")])
def test_upper_bounds(horizon, epsilon):
    eps, d, lam = mpmath.mpf(epsilon), 10, mpmath.mpf(2)
    p, c, s, big_d, big_l, delta = 1 + eps, mpmath.mpf(3), mpmath.mpf("1.5"), mpmath.mpf("2.5"), 4, mpmath.mpf("0.1")
    potential = mpmath.sqrt(2 * d * mpmath.log(1 + horizon * big_d**2 / (lam * d)))
    known = {
        "dim": d,
        "delta": 0.1,
        "epsilon": float(epsilon),
        "ridge": 2.0,
        "theta_norm": 1.5,
        "arm_norm": 2.5,
        "mean_bound": 4.0,
    }
    menu = 6 * ((9 * d * c) ** (1 / p) + mpmath.sqrt(lam) * s + big_l) * mpmath.mpf(horizon) ** (1 / p)
    menu *= (24 * mpmath.log(E * horizon / delta) + 1) ** (eps / p) * potential
    assert theory.menu_regret_bound(float(horizon), central_moment_bound=3.0, **known) == pytest.approx(
        float(menu), rel=1e-13
    )
    tofu = 4 * mpmath.sqrt(d) * c ** (1 / p) * mpmath.log(2 * d * horizon / delta) ** (eps / p)
    tofu = 2 * mpmath.mpf(horizon) ** (1 / p) * (tofu + mpmath.sqrt(lam) * s + big_l) * potential
    assert theory.tofu_regret_bound(float(horizon), raw_moment_bound=3.0, **known) == pytest.approx(
        float(tofu), rel=1e-13
    )


KNOWN = {"dim": 10, "delta": 0.1, "ridge": 2.0, "theta_norm": 1.5, "arm_norm": 2.5, "mean_bound": 4.0}


def potential(updates):
    """sqrt(2 n d ln(1 + n D^2 / (lambda d))) of KNOWN."""
    return mpmath.sqrt(20 * updates * mpmath.log(1 + updates * mpmath.mpf("6.25") / 20))


@pytest.mark.parametrize(
    ("updates", "radius", "pulls", "expected"),
    [
        # n = e^2 - 1 in one dimension with D^2 = lambda: the logarithm is 2, so 2 r max(beta, L) 2 sqrt(n)
        (math.e**2 - 1, 3.0, 1, 12 * math.sqrt(math.e**2 - 1)),
        (math.e**2 - 1, 0.5, 1, 8 * math.sqrt(math.e**2 - 1)),  # L = 2 is larger
        ((math.e**2 - 1), 3.0, 7, 84 * math.sqrt(math.e**2 - 1)),
    ],
)
def test_what_optimism_costs(updates, radius, pulls, expected):
    known = {"dim": 1, "ridge": 4.0, "arm_norm": 2.0, "mean_bound": 2.0}
    assert theory.log_det_bound(updates, dim=1, ridge=4.0, arm_norm=2.0) == pytest.approx(2, rel=1e-14)
    got = theory.optimism_regret_bound(updates, radius=radius, pulls=pulls, **known)
    assert got == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(("horizon", "dim", "bound"), [(1, 1, "0.6931471805599453"), (8, 2, "3.2188758248682006"),
                                                       (24, 3, "6.591673732008658")])  # fmt: skip
def test_the_determinant_s_bound(horizon, dim, bound):  # d ln(1 + n/d): ln 2, 2 ln 5, 3 ln 9
    got = theory.log_det_bound(horizon, dim=dim, ridge=1.0, arm_norm=1.0)
    assert got == pytest.approx(float(bound), rel=1e-14)


@pytest.mark.parametrize(
    ("policy", "exponents"),
    [
        ("menu", (1 / 2, 2 / 3, 4 / 5)),
        ("tofu", (1 / 2, 2 / 3, 4 / 5)),
        ("lower-bound", (1 / 2, 2 / 3, 4 / 5)),
        ("mom", (3 / 4, 4 / 5, 6 / 7)),
        ("crt", (3 / 4, 5 / 6, 9 / 10)),
        ("oful", (1 / 2, 1 / 2, 1 / 2)),
    ],
)
def test_exponents_of_the_bounds(policy, exponents):
    assert [theory.regret_exponent(policy, e) for e in (1.0, 0.5, 0.25)] == pytest.approx(exponents, rel=1e-15)


@pytest.mark.parametrize(
    ("horizon", "epsilon", "schedule"),
    # (m, r, q, floor(r/q), epochs played with what is left over), worked out by hand
    [(20_000, "1", (141, 141, 64, 2, 142)), (10_000, "0.5", (39, 256, 54, 4, 40)), (441, "1", (10, 44, 43, 1, 11))],
)
def test_mom_regret_bound(horizon, epsilon, schedule):
    eps, (m, r, q, block, played) = mpmath.mpf(epsilon), schedule
    assert theory.mom_schedule(horizon, delta=0.1, epsilon=float(epsilon))[:4] == (m, r, q, block)
    assert played == m + (horizon > m * r)
    beta = 36 ** (1 / (1 + eps)) * mpmath.mpf(block) ** (-eps / (1 + eps)) * mpmath.sqrt(m) + mpmath.sqrt(2) * 1.5
    expected = 2 * r * max(beta, 4) * potential(played)
    got = theory.mom_regret_bound(horizon, central_moment_bound=3.0, epsilon=float(epsilon), **KNOWN)
    assert got == pytest.approx(float(expected), rel=1e-13)


@pytest.mark.parametrize(("horizon", "epsilon"), [(1000, "1"), (20_000, "0.5"), (10_000, "0.25")])
def test_crt_and_oful_regret_bounds(horizon, epsilon):
    p, b, offset = 1 + mpmath.mpf(epsilon), mpmath.mpf("7.72"), mpmath.sqrt(2) * 1.5
    log_det = 10 * mpmath.log(1 + horizon * mpmath.mpf("6.25") / 20)
    alpha = mpmath.mpf(horizon) ** (1 / (2 * p))
    root = mpmath.sqrt(2 * (log_det / 2 + mpmath.log(10 * mpmath.mpf(horizon) * (horizon + 1))))
    valid = alpha * root + b * mpmath.sqrt(p) * alpha + offset
    got = theory.crt_regret_bound(float(horizon), raw_moment_bound=7.72, epsilon=float(epsilon), **KNOWN)
    assert got == pytest.approx(float(2 * valid * potential(horizon)), rel=1e-13)
    sub_gaussian = 3 * mpmath.sqrt(2 * (log_det / 2 + mpmath.log(10))) + offset
    got = theory.oful_regret_bound(float(horizon), noise_scale=3.0, **KNOWN)
    assert got == pytest.approx(float(2 * sub_gaussian * potential(horizon)), rel=1e-13)


@pytest.mark.parametrize("epsilon", [1.0, 0.5, 0.25])
def test_bounds_grow_as_their_rates(epsilon):
    # A million times longer: what logarithms add to a slope over twelve decades is below 0.1.
    moments = {"mom": "central_moment_bound", "menu": "central_moment_bound"}
    for policy in ("menu", "tofu", "mom", "crt"):
        bound = getattr(theory, f"{policy}_regret_bound")
        known = {**KNOWN, moments.get(policy, "raw_moment_bound"): 3.0, "epsilon": epsilon}
        slope = math.log10(bound(10**18, **known) / bound(10**6, **known)) / 12
        assert 0 <= slope - theory.regret_exponent(policy, epsilon) < 0.1


@pytest.mark.parametrize(("dim", "epsilon", "horizon"), [(2, 1.0, 1e4), (4, 0.5, 1e3), (20, 0.25, 1e6)])
def test_lower_bound(dim, epsilon, horizon):
    power = mpmath.mpf(horizon) ** (1 / (1 + mpmath.mpf(epsilon)))
    assert theory.lower_bound_regret(horizon, dim=dim, epsilon=epsilon) == pytest.approx(
        float(dim * power / 192), rel=1e-14
    )
    gap = 1 / (12 * mpmath.mpf(horizon) ** (mpmath.mpf(epsilon) / (1 + mpmath.mpf(epsilon))))
    assert theory.lower_bound_gap(horizon, epsilon=epsilon) == pytest.approx(float(gap), rel=1e-14)
    smallest = theory.lower_bound_smallest_horizon(dim=dim, epsilon=epsilon)
    assert theory.lower_bound_gap(smallest, epsilon=epsilon) <= 1 / dim * (1 + 1e-9)
    if smallest > 1:
        assert theory.lower_bound_gap(smallest - 1, epsilon=epsilon) > 1 / dim


def test_traced_and_host_values_agree():
    known = {"dim": 10, "epsilon": 0.5, "ridge": 2.0, "theta_norm": 1.5}

    def everything(t, xp_delta):
        return (
            theory.menu_radius(t, central_moment_bound=3.0, **known),
            theory.tofu_radius(t, horizon=1e4, delta=xp_delta, raw_moment_bound=7.0, **known),
            theory.tofu_level(t, horizon=1e4, delta=xp_delta, raw_moment_bound=7.0, dim=10, epsilon=0.5),
            theory.lower_bound_regret(t, dim=4, epsilon=0.5),
            theory.crt_regret_bound(
                t, delta=xp_delta, raw_moment_bound=7.0, arm_norm=2.0, mean_bound=3.0 * xp_delta, **known
            ),
            theory.oful_regret_bound(
                t, dim=10, delta=xp_delta, noise_scale=2.0, ridge=2.0, theta_norm=1.5, arm_norm=2.0, mean_bound=3e9
            ),
        )

    np.testing.assert_allclose(
        jax.jit(everything)(jnp.asarray(17.0), jnp.asarray(0.1)), everything(17.0, 0.1), rtol=1e-14
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda: theory.tofu_level(1.0, horizon=9.0, delta=0.1, dim=1, raw_moment_bound=1.0, epsilon=1.0, level="bx"),
        lambda: theory.regret_exponent("greedy", 0.5),
        lambda: theory.tofu_retruncation_rounds(10, 0),
        lambda: theory.tofu_retruncation_rounds(10, 11),
        lambda: theory.crt_radius(
            1.0,
            horizon=9.0,
            log_det_ratio=0.0,
            delta=0.1,
            raw_moment_bound=1.0,
            epsilon=1.0,
            ridge=1.0,
            theta_norm=1.0,
            radius="papr",
        ),
    ],
)
def test_wrong_names_and_counts_are_refused(call):
    with pytest.raises(ValueError, match=r"allowed are|must be|are known of"):
        call()


# Regret bounds of the policies after 2018

PROBLEM = {"dim": 10, "delta": 0.1, "ridge": 1.0, "theta_norm": 1.0, "arm_norm": 1.0, "mean_bound": 1.0}


def huber_bound(horizon, ridge, move, beta):
    """2 beta sqrt((1 + cap) T k) + 2 L k (1 + cap)/cap, without the second term where no pull can be capped."""
    cap = move / (2 * beta)
    k = 10 * math.log(1 + horizon / (10 * ridge))
    capped = 0 if 1 / ridge <= cap * (1 + 1e-9) else min(k * (1 + cap) / cap, horizon)
    return 2 * beta * math.sqrt((1 + cap) * horizon * k) + 2 * capped


def test_bounds_of_huber_regression():
    told = {"central_moment_bound": 1.0, "epsilon": 1.0}
    bound = theory.hvt_ucb_regret_bound(10_000, **told, **PROBLEM)
    assert bound == pytest.approx(76_000, rel=0.04)  # with 1.1 for 1 + cap
    capped = theory.hvt_ucb_regret_bound(10_000, no_cap=False, **told, **PROBLEM)
    noise = {"delta": 0.1, "epsilon": 1.0}
    size = {"dim": 10, "arm_norm": 1.0, "central_moment_bound": 1.0}
    ridge = theory.hvt_uncapped_ridge(10_000, theta_norm=1.0, **size, **noise)
    for lam, found in ((ridge, bound), (1.0, capped)):
        move = theory.hvt_move(10_000, ridge=lam, **size, **noise)
        beta = theory.hvt_radius(move=move, ridge=lam, theta_norm=1.0, **noise)
        assert found == pytest.approx(huber_bound(10_000, lam, move, beta), rel=1e-12)
    assert bound < capped
    move = theory.heavy_oful_move(10_000, ridge=1.0, **size, **noise)
    beta = theory.heavy_oful_radius(move=move, ridge=1.0, theta_norm=1.0, **noise)
    found = theory.heavy_oful_regret_bound(10_000, **told, **PROBLEM)
    assert found == pytest.approx(huber_bound(10_000, 1.0, move, beta), rel=1e-12)
    assert found > capped


def test_bounds_of_the_designs():
    # With orthonormal arms in turn the proved leverage is never below the true one
    for dim, n, ridge in ((1, 7, 1.0), (4, 40, 0.5), (4, 3, 2.0)):
        counts = np.full(dim, n // dim) + (np.arange(dim) < n % dim)
        true = np.max(1.0 / (ridge + counts))
        assert theory.greedy_leverage_bound(n, dim=dim, ridge=ridge, arm_norm=1.0) >= true * (1 - 1e-12)
    told = {"num_arms": 20, "raw_moment_bound": 2.0, "epsilon": 0.5}
    bound, p, total = theory.gopt_elim_regret_bound(100, **told, **PROBLEM), 1.5, 2.0 * 20
    for number, rows in ((1, 20), (2, 40)):  # 20 + 40 + 80 > 100
        log = math.log(2 * 20 * number * (number + 1) / 0.1)
        leverage = math.exp(10 * math.log(1 + rows / 10) / rows) - 1
        spread = 2.0 ** (1 / p) * rows ** (1 / 6) * math.sqrt(leverage)
        total += 8 * rows * (3 ** (1 / 3) * spread * log ** (1 / 3) + math.sqrt(leverage))
    assert bound == pytest.approx(total, rel=1e-12)
    rows, k = theory.etc_schedule(10_000, dim=10, num_arms=20, delta=0.1)
    leverage = math.exp(10 * math.log(1 + rows / 10) / rows) - 1
    width = math.sqrt(leverage) * ((2**2.5 * 3.0) ** (1 / p) * rows ** (1 / 6) + 1)
    found = theory.explore_then_commit_regret_bound(
        10_000, num_arms=20, central_moment_bound=3.0, epsilon=0.5, **PROBLEM
    )
    assert found == pytest.approx(2 * rows * k + 2 * 10_000 * width, rel=1e-12)


def test_bounds_by_optimism():
    told = {"central_moment_bound": 2.0, "epsilon": 0.5}
    r, epochs = theory.crmm_schedule(10_000, delta=0.1)
    assert r * epochs < 10_000
    log_det = 10 * math.log(1 + epochs / 10)
    beta = 4.0 * math.sqrt(log_det + 2 * math.log(20)) + 1  # R = 8^(2/3)
    potential = 2 * (epochs + 1) * 10 * math.log(1 + (epochs + 1) / 10)
    found = theory.crmm_regret_bound(10_000, **told, **PROBLEM)
    assert found == pytest.approx(2 * r * beta * math.sqrt(potential), rel=1e-12)


@pytest.mark.parametrize("name", ["hvt_ucb", "heavy_oful"])
def test_where_no_payoff_moves_the_estimate_the_bound_is_what_always_holds(name):
    bound = getattr(theory, f"{name}_regret_bound")
    for known in ({"central_moment_bound": 0.0}, {"central_moment_bound": 1.0, "arm_norm": 1e-300}):
        assert bound(10_000, **{**PROBLEM, "epsilon": 0.5, **known}) == 20_000


def test_the_smallest_odd_number():
    for most in [*range(12), 50, 51, math.inf]:
        for first in range(1, 60):
            found = smallest_odd(lambda number, first=first: number >= first, most)
            smallest = first + (first % 2 == 0)
            assert found == (smallest if smallest <= most else None)
    assert theory.median_copies(1e-100) > theory.median_copies(1e-50) > 401
    failure = theory.median_copies(0.01)
    tail = [
        sum(math.comb(n, j) * 3 ** (n - j) for j in range((n + 1) // 2, n + 1)) / 4**n for n in (failure - 2, failure)
    ]
    assert tail[0] > 0.01 >= tail[1]
