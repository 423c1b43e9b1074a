"""Bootstrap, order-statistic, trimmed and share intervals, ranks and fitted exponents, against scipy and by hand."""

import math

import numpy as np
import pytest
from scipy import special, stats

from linbet_jax.statistics import regret

SKEWED = np.random.default_rng(5).pareto(2.5, size=37)


@pytest.mark.parametrize("method", ["percentile", "bca"])
@pytest.mark.parametrize("statistic", ["mean", "median"])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_bootstrap_by_hand_on_the_same_draws(method, statistic, level):
    mine = regret.bootstrap_interval(SKEWED, statistic=statistic, method=method, level=level, resamples=500, seed=3)
    of, n, tails = getattr(np, statistic), SKEWED.size, np.array([(1 - level) / 2, (1 + level) / 2])
    drawn, value = of(SKEWED[np.random.default_rng(3).integers(0, n, (500, n))], axis=1), of(SKEWED)
    if method == "bca":  # Efron 1987: bias and skewness, from the resamples and from leaving out one seed at a time
        bias = special.ndtri((np.mean(drawn < value) + np.mean(drawn <= value)) / 2)
        left = np.array([of(np.delete(SKEWED, i)) for i in range(n)])
        centred = left.mean() - left
        skewness = np.sum(centred**3) / (6 * np.sum(centred**2) ** 1.5)
        shifted = bias + special.ndtri(tails)
        tails = special.ndtr(bias + shifted / (1 - skewness * shifted))
    low, high = np.quantile(drawn, tails)
    assert mine.value == pytest.approx(value, rel=1e-14)
    assert (mine.low, mine.high) == (pytest.approx(low, rel=1e-12), pytest.approx(high, rel=1e-12))
    assert mine.standard_error == pytest.approx(drawn.std(ddof=1), rel=1e-12)


def test_a_function_gives_what_its_name_gives_and_chunks_do_not_matter(monkeypatch):
    curves = np.random.default_rng(6).normal(size=(9, 4)).cumsum(axis=1)
    whole = [regret.bootstrap_interval(curves, statistic=s, resamples=101) for s in ("mean", "median")]
    monkeypatch.setattr("linbet_jax.statistics.intervals._CHUNK", 100)
    for wanted, function in zip(whole, (lambda v, axis: v.mean(axis), lambda v, axis: np.median(v, axis)), strict=True):
        found = regret.bootstrap_interval(curves, statistic=function, resamples=101)
        for field in ("value", "low", "high", "standard_error"):
            np.testing.assert_allclose(getattr(found, field), getattr(wanted, field), rtol=1e-12)
            assert getattr(found, field).shape == (4,)
    # One column alone is drawn as it is within the curve.
    alone = regret.bootstrap_interval(curves[:, 2], resamples=101)
    assert alone.low == pytest.approx(whole[0].low[2], rel=1e-12)


def test_the_bootstrap_covers_as_often_as_it_says():
    runs, n = 2000, 30
    values = np.random.default_rng(7).exponential(size=(n, runs))
    found = regret.bootstrap_interval(values, resamples=1000, level=0.9)
    covered = np.mean((found.low <= 1) & (found.high >= 1))
    # All columns share their draws; 30 exponential values lose a few points of coverage, BCa not more than that.
    assert 0.85 < covered < 0.93


@pytest.mark.parametrize("method", ["percentile", "bca"])
@pytest.mark.parametrize("statistic", ["mean", "median"])
def test_constant_and_far_away_values_are_exact(method, statistic):
    settings = {"method": method, "statistic": statistic, "resamples": 200}
    constant = regret.bootstrap_interval(np.full((6, 2), 1e8 + 0.1), **settings)
    for exact in (constant.value, constant.low, constant.high):
        np.testing.assert_array_equal(exact, 1e8 + 0.1)
    np.testing.assert_array_equal(constant.standard_error, 0)
    small = np.array([0.25, 0.5, 1.0, 1.75, 1.0])
    near, far = regret.bootstrap_interval(small, **settings), regret.bootstrap_interval(small + 1e8, **settings)
    assert far.standard_error == near.standard_error
    assert far.low - 1e8 == pytest.approx(near.low, abs=3e-8)


def test_one_healthy_seed_or_none_has_no_interval():
    one = regret.bootstrap_interval([3.0, np.nan], [0, 9])
    assert (one.value, one.n, one.seeds, one.unhealthy) == (3, 1, 2, 1)
    assert np.isnan([one.low, one.high, one.standard_error]).all()
    none = regret.bootstrap_interval([[3.0, 1.0]], [5])
    assert (none.n, none.unhealthy) == (0, 1)
    assert np.isnan(none.value).all()
    assert none.value.shape == (2,)
    assert np.isnan(regret.trimmed_mean([3.0]).low)
    assert np.isnan(regret.quantile_interval([3.0], health=[1]).low)


def test_a_statistic_at_the_edge_of_its_resamples_keeps_an_interval():
    # The maximum is never exceeded by a resample's: the bias of BCa would be infinite.
    found = regret.bootstrap_interval([1.0, 2.0, 3.0], statistic=lambda v, axis: v.max(axis) + 1e-9 * v.shape[axis])
    assert np.isfinite([found.low, found.high]).all()


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.8])
@pytest.mark.parametrize("n", [3, 20, 101])
def test_quantile_intervals_are_scipy_s(probability, n):
    values = np.random.default_rng(n).normal(size=n)
    mine = regret.quantile_interval(values, probability)
    theirs = stats.quantile_test(values, p=probability).confidence_interval(0.95)
    # Where no order statistic is an end SciPy has NaN.
    wanted = np.where(np.isnan([theirs.low, theirs.high]), [-np.inf, np.inf], [theirs.low, theirs.high])
    np.testing.assert_array_equal([mine.low, mine.high], wanted)
    assert (mine.caveat == "") == bool(np.isfinite(wanted).all())
    assert mine.value == pytest.approx(np.quantile(values, probability), rel=1e-12)


def test_a_quantile_lies_in_its_interval_and_an_end_that_nothing_bounds_is_infinite():
    values = [5.0, 1.0, 2.0, 9.0, 7.0, 3.0]
    # P(all six lie below the 0.999-quantile) = 0.999^6 > 0.975: the largest is the lower end, and the estimate.
    high = regret.quantile_interval(values, 0.999)
    assert (high.value, high.low, high.high) == (9, 9, np.inf)
    assert high.caveat == "6 seeds cannot bound the 0.999-quantile from above"
    low = regret.quantile_interval(values, 0.001)
    assert (low.value, low.low, low.high) == (1, -np.inf, 1)
    both = regret.quantile_interval([[3.0, 4.0]])
    assert (both.low.tolist(), both.value.tolist(), both.high.tolist()) == ([-np.inf] * 2, [3, 4], [np.inf] * 2)
    assert both.caveat == "1 seed cannot bound the 0.5-quantile from below and above"
    for probability in (0.001, 0.01, 0.3, 0.9, 0.97, 0.999):
        for n in (1, 2, 5, 8, 40, 300):
            found = regret.quantile_interval(np.random.default_rng(n).normal(size=n), probability)
            assert found.low <= found.value <= found.high


def test_a_tail_that_is_exact_on_paper_counts():
    # P(Bin(3, 1/2) = 0) = 1/8, the tail of the level 3/4.
    found = regret.quantile_interval([1.0, 2.0, 3.0], level=0.75)
    assert (found.low, found.high, found.caveat) == (1, 3, "")


def test_quantile_intervals_by_hand():
    # n = 6, median: P(Bin(6, 1/2) = 0) = 1/64 <= 0.025 < 7/64, so the whole range and nothing less.
    mine = regret.quantile_interval([5.0, 1.0, 2.0, 9.0, 7.0, 3.0])
    assert (mine.value, mine.low, mine.high) == (4, 1, 9)
    with pytest.raises(ValueError, match="probability must lie strictly"):
        regret.quantile_interval([1.0, 2.0], 1.0)


@pytest.mark.parametrize("proportion", [0.0, 0.1, 0.2, 0.45])
def test_trimmed_means_are_yuen_s(proportion):
    rng = np.random.default_rng(8)
    a, b = rng.pareto(2, size=23), rng.pareto(2, size=41)
    first, second = (regret.trimmed_mean(v, proportion=proportion) for v in (a, b))
    assert first.value == pytest.approx(stats.trim_mean(a, proportion), rel=1e-12)
    test = stats.ttest_ind(a, b, trim=proportion, equal_var=False)
    error = math.hypot(first.standard_error, second.standard_error)
    assert (first.value - second.value) / error == pytest.approx(test.statistic, rel=1e-10)


def test_trimmed_means_by_hand_and_far_away():
    values = np.array([0.0, 1.0, 2.0, 3.0, 100.0])
    found = regret.trimmed_mean(values, proportion=0.2)
    # Winsorised 1 1 2 3 3: squared deviations sum to 4, h = 3.
    assert (found.value, found.standard_error) == (2, pytest.approx(math.sqrt(4 / 6)))
    assert found.high - found.value == pytest.approx(stats.t.ppf(0.975, df=2) * math.sqrt(4 / 6))
    assert regret.trimmed_mean(values + 1e8, proportion=0.2).standard_error == found.standard_error
    plain = regret.summarize(values)
    untrimmed = regret.trimmed_mean(values, proportion=0)
    assert (untrimmed.low, untrimmed.high) == (pytest.approx(plain.low), pytest.approx(plain.high))
    np.testing.assert_array_equal(regret.trimmed_mean(np.full(9, 1e8 + 0.1)).low, 1e8 + 0.1)
    with pytest.raises(ValueError, match="proportion must lie in"):
        regret.trimmed_mean(values, proportion=0.5)


@pytest.mark.parametrize(("proportion", "n", "cut"), [(0.29, 100, 29), (0.07, 100, 7), (0.1, 30, 3), (0.1, 9, 0)])
def test_the_share_that_is_cut_is_the_one_that_was_written(proportion, n, cut):
    """Though 0.29 times 100 is 28.999999999999996 in floating point."""
    values = np.arange(float(n)) ** 2
    assert regret.trimmed_mean(values, proportion=proportion).value == pytest.approx(values[cut : n - cut].mean())
    assert regret.trimmed_mean([1.0, 3.0], proportion=math.nextafter(0.5, 0)).value == 2


def test_one_seed_far_out_takes_nothing_from_the_others():
    """In the first place of all, where it was once what everything was relative to."""
    values = np.array([1e20, *np.linspace(1, 3, 41)])
    summary, trimmed = regret.summarize(values), regret.trimmed_mean(values)
    assert summary.median == summary.quantile(0.5) == pytest.approx(2.025, rel=1e-12)
    inner = np.sort(values)[4:-4].mean()
    assert summary.trimmed_mean == trimmed.value == pytest.approx(inner, rel=1e-12)
    assert 1 < trimmed.low < inner < trimmed.high < 3
    assert regret.quantile_interval(values).value == summary.median
    drawn = regret.bootstrap_interval(values, statistic="median", method="percentile", resamples=200)
    assert 1 < drawn.low < drawn.value < drawn.high < 3


@pytest.mark.parametrize("wins", [0, 1, 7, 19, 20])
def test_share_intervals_by_their_definitions(wins):
    tail, n = 0.05, 20
    low, high = regret.share_interval(wins, n, level=0.9)
    z = special.ndtri(1 - tail)
    for end in (low, high):  # Wilson: the shares whose score test does not reject
        assert (wins / n - end) ** 2 == pytest.approx(z**2 * end * (1 - end) / n, abs=1e-12)
    low, high = regret.share_interval(wins, n, level=0.9, method="clopper-pearson")
    # Clopper and Pearson: the shares under which neither tail is improbable.
    assert low == 0 if wins == 0 else special.bdtrc(wins - 1, n, low) == pytest.approx(tail, abs=1e-9)
    assert high == 1 if wins == n else special.bdtr(wins, n, high) == pytest.approx(tail, abs=1e-9)


def test_win_rates_count_neither_ties_nor_unhealthy_seeds():
    found = regret.win_rate([1.0, 2.0, 3.0, 0.0, 0.0], [2.0, 2.0, 1.0, 9.0, np.nan], [0, 0, 0, 0, 0], [0, 0, 0, 0, 4])
    assert (found.wins, found.ties, found.losses, found.n, found.seeds, found.unhealthy) == (2, 1, 1, 4, 5, 1)
    assert found.rate == 2 / 4
    assert (found.low, found.high) == regret.share_interval(2, 4)
    nobody = regret.win_rate([1.0], [2.0], [3])
    assert nobody.n == 0
    assert np.isnan([nobody.rate, nobody.low, nobody.high]).all()
    equal = regret.win_rate(np.full(8, 1e8 + 0.1), np.full(8, 1e8 + 0.1), method="clopper-pearson")
    assert (equal.rate, equal.low, equal.ties) == (0, 0, 8)
    assert regret.win_rate([np.inf, 1.0], [1.0, 2.0]).unhealthy == 1


def test_ranks_are_scipy_s():
    rng = np.random.default_rng(9)
    values = {name: rng.integers(0, 4, 15).astype(float) for name in "abc"}
    ranks = stats.rankdata(np.stack(list(values.values()), axis=1), axis=1)
    found = {rank.name: rank for rank in regret.rank_table(values)}
    for place, name in enumerate("abc"):
        wanted = regret.summarize(ranks[:, place])
        assert (found[name].summary.mean, found[name].summary.sd) == (wanted.mean, wanted.sd)
    table = np.stack(list(values.values()), axis=1)
    others = np.delete(table, 1, axis=1).min(axis=1)
    assert (found["b"].first, found["b"].tied) == (np.mean(table[:, 1] < others), np.mean(table[:, 1] == others))
    order = [float(rank.summary.mean) for rank in regret.rank_table(values)]
    assert order == sorted(order)


def test_ranks_leave_out_seeds_that_any_policy_lost():
    values = {"a": [1.0, 2.0, 5.0], "b": [2.0, np.nan, 4.0]}
    for health in (None, {"a": [0, 0, 0], "b": [0, 8, 0]}):
        found = regret.rank_table(values, health)
        assert [float(rank.summary.mean) for rank in found] == [1.5, 1.5]
        assert [(rank.summary.n, rank.summary.unhealthy, rank.first) for rank in found] == [(2, 1, 0.5)] * 2
    with pytest.raises(ValueError, match="one word per seed"):
        regret.rank_table(values, {"a": [0, 0, 0], "b": [0, 8]})
    with pytest.raises(ValueError, match="seed index 1 is marked healthy"):
        regret.rank_table(values, {"a": [0, 0, 0], "b": [0, 0, 0]})
    [nobody] = regret.rank_table({"a": [1.0]}, {"a": [3]})
    assert np.isnan(nobody.summary.mean)
    assert np.isnan(nobody.first)


def test_a_tie_is_no_win():
    """Two policies that play the same arms: neither is ever first, both are tied in every seed."""
    same = {"a": [5.0, 5.0, 1.0], "b": [5.0, 5.0, 1.0], "c": [6.0, 7.0, 0.5]}
    a, b, c = regret.rank_table(same)
    assert [(rank.first, rank.tied) for rank in (a, b)] == [(0, pytest.approx(2 / 3))] * 2
    assert (c.name, c.first, c.tied) == ("c", pytest.approx(1 / 3), 0)
    share = regret.win_rate(same["a"], same["b"])
    assert (share.wins, share.ties, share.losses, share.rate) == (0, 3, 0, 0)


HORIZONS = np.array([1e3, 3e3, 1e4, 3e4, 1e5])


def test_the_exponent_of_a_power_has_no_spread():  # S7
    regrets = np.array([[0.5], [1.0], [7.0]]) * HORIZONS ** (2 / 3)
    found = regret.exponent_interval(HORIZONS, regrets)
    for number in (found.value, found.low, found.high):
        assert number == pytest.approx(2 / 3, abs=1e-6)
    constant = regret.exponent_interval(HORIZONS, np.full((4, 5), 1e8 + 0.1))
    assert (constant.value, constant.low, constant.high) == (0, 0, 0)


def test_the_exponent_s_interval_is_a_bootstrap_of_seeds():
    rng = np.random.default_rng(10)
    regrets = np.exp(rng.normal(size=(12, 1)) + 0.1 * rng.normal(size=(12, 5))) * HORIZONS**0.75
    found = regret.exponent_interval(HORIZONS, regrets, resamples=400, seed=2)
    picks = np.random.default_rng(2).integers(0, 12, (400, 12))
    slopes = [np.polyfit(np.log(HORIZONS), np.log(regrets[p].mean(axis=0)), 1)[0] for p in picks]
    assert found.value == pytest.approx(regret.fitted_exponent(HORIZONS, regrets.mean(axis=0)), rel=1e-12)
    np.testing.assert_allclose([found.low, found.high], np.quantile(slopes, [0.025, 0.975]), rtol=1e-9)
    assert found.low < 0.75 < found.high


def test_the_exponent_counts_seeds_that_are_healthy_at_every_horizon():
    regrets = np.array([[1.0], [2.0], [np.nan]]) * HORIZONS**0.5
    found = regret.exponent_interval(HORIZONS, regrets, np.array([[0] * 5, [0] * 5, [0, 0, 0, 0, 3]]))
    assert (found.n, found.seeds, found.unhealthy) == (2, 3, 1)
    assert np.isnan(regret.exponent_interval(HORIZONS, regrets[:1]).low)
    with pytest.raises(ValueError, match="none of the 3 seeds is healthy"):
        regret.exponent_interval(HORIZONS, regrets, [1, 1, 1])
    with pytest.raises(ValueError, match=r"regrets must be \[seeds, horizons\]"):
        regret.exponent_interval(HORIZONS, regrets[0])
    assert found.caveat == ""
    two = regret.exponent_interval(HORIZONS[:2], regrets[:2, :2])
    assert two.caveat == "a line through two points: two horizons do not show a power of T"
    # A seed without regret at one horizon: some resample has nothing else, and the interval says so.
    assert np.isnan(regret.exponent_interval([1.0, 2.0], [[0.0, 1.0], [1.0, 2.0]]).low)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: regret.bootstrap_interval([1.0, 2.0], method="basic"), "method must be"),
        (lambda: regret.bootstrap_interval([1.0, 2.0], statistic="mode"), "statistic must be"),
        (lambda: regret.bootstrap_interval([1.0, 2.0], resamples=1), "resamples must be"),
        (lambda: regret.bootstrap_interval([1.0, 2.0], resamples=True), "resamples must be"),
        (lambda: regret.bootstrap_interval([1.0, 2.0], level=1), "level must lie"),
        (lambda: regret.bootstrap_interval([1.0, np.nan], [0, 0]), "seed index 1 .*non-finite"),
        (lambda: regret.trimmed_mean([]), "at least one seed"),
        (lambda: regret.quantile_interval([1.0], health=[0, 0]), "one word per seed"),
        (lambda: regret.share_interval(3, 2), r"count must be a whole number in \[0, 2\], got 3"),
        (lambda: regret.share_interval(1.5, 2), r"count must be a whole number in \[0, 2\], got 1.5"),
        (lambda: regret.share_interval(1, 2, method="wald"), "method must be"),
        (lambda: regret.win_rate([1.0], [1.0, 2.0]), "a number for each seed"),
        (lambda: regret.win_rate([1.0], [1.0], [0, 0]), "one word per seed"),
        (lambda: regret.rank_table({}), "at least one policy"),
        (lambda: regret.rank_table({"a": [1.0], "b": [1.0, 2.0]}), "one length"),
        (lambda: regret.rank_table({"a": [1.0]}, {"b": [0]}), "same policies"),
    ],
)
def test_wrong_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
