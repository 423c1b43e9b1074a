"""Summaries over seeds (cases S3, S4, S5, S7) and their numerical edges."""

import math

import numpy as np
import pytest
from scipy import stats

from linbet_jax.statistics import regret


def test_two_seeds_by_hand():  # S3
    summary = regret.summarize([10.0, 20.0])
    assert summary.mean == 15
    assert summary.sd == pytest.approx(7.0710678118654755, abs=1e-12)
    assert summary.standard_error == pytest.approx(5, abs=1e-12)
    assert summary.median == 15
    half = stats.t.ppf(0.975, df=1) * 5
    assert (summary.low, summary.high) == (pytest.approx(15 - half), pytest.approx(15 + half))


def test_one_seed_has_no_band():  # S4
    summary = regret.summarize([[1.0, 2.0, 3.0]])
    assert not summary.has_band
    assert summary.n == 1
    np.testing.assert_array_equal(summary.mean, [1, 2, 3])
    np.testing.assert_array_equal(summary.median, [1, 2, 3])
    for nothing in (summary.sd, summary.standard_error, summary.low, summary.high):
        assert np.isnan(nothing).all()
        assert nothing.shape == (3,)


def test_the_interval_counts_seeds_and_not_rounds():  # S5
    values = np.random.default_rng(0).normal(size=(10, 1000)).cumsum(axis=1)
    summary = regret.summarize(values)
    assert summary.n == 10
    sd = values.std(axis=0, ddof=1)
    np.testing.assert_allclose(summary.standard_error, sd / math.sqrt(10), rtol=1e-12)
    half = stats.t.ppf(0.975, df=9) * sd / math.sqrt(10)
    np.testing.assert_allclose(summary.high - summary.mean, half, rtol=1e-10)
    np.testing.assert_allclose(summary.mean - summary.low, half, rtol=1e-10)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_the_level_of_the_interval(level):
    values = np.random.default_rng(1).normal(size=7)
    summary = regret.summarize(values, level=level)
    low, high = stats.t.interval(level, df=6, loc=values.mean(), scale=stats.sem(values))
    assert (summary.low, summary.high) == (pytest.approx(low, rel=1e-12), pytest.approx(high, rel=1e-12))


def test_the_interval_covers_the_mean_as_often_as_it_says():
    values = np.random.default_rng(2).normal(size=(5, 20_000))
    summary = regret.summarize(values)
    covered = np.mean((summary.low <= 0) & (summary.high >= 0))
    assert abs(covered - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 20_000)


def test_median_and_trimmed_mean_stand_beside_a_mean_that_one_seed_rules():
    values = np.ones(100)
    values[17] = 1e9
    summary = regret.summarize(np.stack([values, values * 2], axis=1))
    np.testing.assert_array_equal(summary.median, [1, 2])
    np.testing.assert_array_equal(summary.trimmed_mean, [1, 2])
    assert summary.mean[0] == pytest.approx(1e7 + 0.99)
    few = regret.summarize(np.arange(9.0) ** 2)
    assert few.trimmed_mean == few.mean  # below ten seeds nothing is cut
    assert regret.summarize(np.arange(10.0) ** 2).trimmed_mean == pytest.approx(sum(k * k for k in range(1, 9)) / 8)


def test_values_near_1e8_lose_nothing():
    small = np.array([0.25, 0.5, 1.0, 1.75])
    summary, shifted = regret.summarize(small), regret.summarize(small + 1e8)
    assert shifted.sd == summary.sd
    assert shifted.mean == 1e8 + summary.mean
    assert shifted.median == 1e8 + summary.median


@pytest.mark.parametrize("value", [0.0, 0.1, 1e8 + 0.1, -3.3e-300])
def test_a_constant_series_has_no_spread_at_all(value):
    summary = regret.summarize(np.full((11, 3), value))
    for exact in (summary.mean, summary.median, summary.low, summary.high):
        np.testing.assert_array_equal(exact, value)
    np.testing.assert_array_equal(summary.sd, 0)


def test_unhealthy_seeds_are_counted_and_left_out():
    values = [[1.0, 2.0], [np.nan, 5.0], [3.0, 6.0]]
    summary = regret.summarize(values, [0, 17, 0])
    assert (summary.n, summary.seeds, summary.unhealthy) == (2, 3, 1)
    np.testing.assert_array_equal(summary.mean, [2, 4])
    # Without health words the numbers speak for themselves, over the whole curve.
    assert regret.summarize(values).unhealthy == 1


def test_an_unhealthy_seed_with_finite_numbers_is_left_out_too():
    assert regret.summarize([1.0, 100.0], [0, 3]).mean == 1


def test_no_healthy_seed_is_nan_everywhere():
    summary = regret.summarize([[np.inf], [1.0]], [4, 2])
    assert (summary.n, summary.unhealthy) == (0, 2)
    assert np.isnan(summary.mean).all()
    assert np.isnan(summary.quantile([0.1, 0.9])).all()
    assert summary.quantile([0.1, 0.9]).shape == (2, 1)


def test_a_seed_called_healthy_must_be_finite():
    with pytest.raises(ValueError, match=r"seed index 1 .*non-finite"):
        regret.summarize([1.0, np.nan], [0, 0])


def test_quantiles():
    summary = regret.summarize(np.arange(11.0)[:, None] * [1, 10])
    np.testing.assert_allclose(summary.quantile(0.25), [2.5, 25])
    np.testing.assert_allclose(summary.quantile([0, 0.5, 1]), [[0, 0], [5, 50], [10, 100]])
    np.testing.assert_array_equal(summary.quantile(0.5), summary.median)
    with pytest.raises(ValueError, match=r"probability must lie in \[0, 1\]"):
        summary.quantile(1.5)


@pytest.mark.parametrize(
    ("values", "health", "level", "message"),
    [
        ([], None, 0.95, "at least one seed"),
        (3.0, None, 0.95, "at least one seed"),
        ([1.0, 2.0], [0], 0.95, "one word per seed"),
        ([1.0, 2.0], None, 1.0, "level must lie strictly between 0 and 1"),
        ([1.0, 2.0], None, math.nan, "level must lie"),
    ],
)
def test_wrong_input(values, health, level, message):
    with pytest.raises(ValueError, match=message):
        regret.summarize(values, health, level=level)


def test_paired_differences_remove_what_the_runs_share():
    noise = np.random.default_rng(3).normal(size=12) * 1000
    first, second = noise + 5 + np.linspace(0, 1, 12), noise
    summary = regret.paired_difference(first, second)
    assert summary.mean == pytest.approx(5.5, abs=1e-9)
    assert summary.sd < 1
    assert summary.low > 0


def test_a_pair_is_healthy_when_both_are():
    summary = regret.paired_difference([1.0, 2.0, 9.0], [0.0, np.nan, 4.0], [0, 0, 7], [0, 2, 0])
    assert (summary.n, summary.unhealthy) == (1, 2)
    assert summary.mean == 1
    assert regret.paired_difference([np.inf, 1.0], [np.inf, 0.0]).unhealthy == 1
    # Health words of one side alone: the other side's numbers speak for themselves.
    one = regret.paired_difference([1.0, 2.0, 9.0], [0.0, np.nan, 4.0], [0, 0, 7])
    assert (one.n, one.unhealthy, one.mean) == (1, 2, 1)
    with pytest.raises(ValueError, match="one shape"):
        regret.paired_difference([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="one word per seed"):
        regret.paired_difference([1.0, 2.0], [1.0, 2.0], [0])


@pytest.mark.parametrize("exponent", [2 / 3, 0.5, 1.0, 0.0, -0.25])
def test_the_fitted_exponent_of_a_power(exponent):  # S7
    horizons = np.array([1e3, 3e3, 1e4, 3e4, 1e5])
    assert regret.fitted_exponent(horizons, 7.3 * horizons**exponent) == pytest.approx(exponent, abs=1e-12)


def test_the_fitted_exponent_is_least_squares():
    t, r = np.array([10.0, 100.0, 1000.0]), np.array([3.0, 20.0, 50.0])
    assert regret.fitted_exponent(t, r) == pytest.approx(np.polyfit(np.log(t), np.log(r), 1)[0], rel=1e-12)


def test_the_fitted_exponent_near_1e8_and_of_a_constant():
    horizons = 1e8 + np.arange(5.0)
    assert regret.fitted_exponent(horizons, 2 * horizons) == pytest.approx(1, abs=1e-6)
    assert regret.fitted_exponent(horizons, np.full(5, 1e8 + 0.1)) == 0


@pytest.mark.parametrize(
    ("horizons", "regrets", "message"),
    [
        ([1, 2], [1.0, 0.0], "regrets must be positive"),
        ([0, 2], [1.0, 2.0], "horizons must be positive"),
        ([1, 2], [1.0, math.nan], "regrets must be positive and finite"),
        ([5, 5], [1.0, 2.0], "two different values"),
        ([5], [1.0], "two different values"),
        ([1, 2, 3], [1.0, 2.0], "one length"),
    ],
)
def test_what_no_exponent_can_be_fitted_to(horizons, regrets, message):
    with pytest.raises(ValueError, match=message):
        regret.fitted_exponent(horizons, regrets)


def test_two_results_are_paired_by_their_final_regret():
    from types import SimpleNamespace

    def played(regret, health, **differing):
        shared = {"seeds": np.arange(2), "key": np.array([0, 7]), "bandit": "S3", "rounds": np.array([5, 10])}
        shared["prng"] = "threefry2x32, partitionable=True"
        return SimpleNamespace(regret=np.array(regret), health=np.array(health), **shared | differing)

    first = played([[1.0, 5.0], [1.0, 7.0]], [0, 0])
    second = played([[0.0, 4.0], [0.0, 4.0]], [0, 3])
    difference = regret.paired_difference(first, second)
    assert (difference.n, difference.unhealthy, float(difference.mean)) == (1, 1, 1.0)
    for field, value, message in (
        ("seeds", np.array([1, 0]), "same seeds"),
        ("key", np.array([0, 8]), r"of one key, got \[0 7\] and \[0 8\]"),
        ("prng", "threefry2x32, partitionable=False", "of one generator, got threefry2x32, partitionable=True and"),
        ("bandit", "S1", r"of one bandit, got S3 and S1; compare values, regret\[:, -1\] for example"),
        ("rounds", np.array([5, 20]), "of one horizon, got 10 and 20"),
    ):
        other = played([[0.0, 4.0], [0.0, 4.0]], [0, 3], **{field: value})
        with pytest.raises(ValueError, match=message):
            regret.paired_difference(first, other)
    assert regret.paired_difference(first.regret[:, -1], other.regret[:, -1]).n == 2
    rows = SimpleNamespace(
        **{name: value for name, value in vars(second).items() if name in ("regret", "health", "seeds")}
    )
    assert regret.paired_difference(first, rows).mean == difference.mean  # a sweep's rows do not say more
    mixed = regret.paired_difference(first.regret[:, -1], second)
    assert (mixed.n, float(mixed.mean)) == (difference.n, float(difference.mean))


@pytest.mark.parametrize("shape", [(3, 2), (6,), (3,)])
def test_the_health_of_an_exponent_has_the_shape_of_its_regrets(shape):
    regrets = np.array([[1.0, 2.0, 4.0], [1.0, 3.0, 5.0]])
    with pytest.raises(ValueError, match=r"health must be \[2, 3\] or \[2\], got the shape"):
        regret.exponent_interval([1, 2, 3], regrets, np.zeros(shape, int))


def test_what_python_shows_is_one_line():
    curve = repr(regret.summarize(np.arange(12.0).reshape(4, 3), np.array([0, 0, 0, 5])))
    assert curve == (
        "Summary(mean 5, 95% interval -2.4524 to 12.452, median 5 at the last of 3 records; 3 seeds, 1 unhealthy)"
    )
    assert repr(regret.summarize([2.0])) == "Summary(mean 2, 95% interval nan to nan, median 2; 1 seeds)"
    share = regret.summarize(np.arange(40.0)[:, None] * [1.0, 2.0], level=0.9).exceeding(35.0)
    assert repr(share) == (
        f"Estimate(0.55, 90% interval {share.low[1]:.5g} to {share.high[1]:.5g} at the last of 2 records, "
        "clopper-pearson; 40 seeds)"
    )
    wins = regret.win_rate([1.0, 2.0, 3.0, 0.0], [2.0, 2.0, 1.0, np.inf])
    assert repr(wins) == (
        f"Share(0.333, 95% interval {wins.low:.3g} to {wins.high:.3g}; smaller in 1, equal in 1 and larger in 1 of "
        "3 seeds, 1 unhealthy)"
    )


def test_a_notebook_shows_a_summary_as_a_table():
    values = np.array([1.0, 2.0, 3.0, 10.0, np.inf])
    table = regret.summarize(values)._repr_html_()
    assert table.startswith("<table><tr><th>seeds</th><td>4 of 5, the others unhealthy</td></tr>")
    for name, value in {"mean": 4, "median": 2.5, "0.9 quantile": np.quantile(values[:4], 0.9)}.items():
        assert f"<tr><th>{name}</th><td>{value:.5g}</td></tr>" in table
    assert "<tr><th>record</th><td>none</td></tr></table>" in regret.summarize(np.ones((4, 0)))._repr_html_()
    curve = regret.summarize(np.stack([values[:4], 2 * values[:4]], axis=1))._repr_html_()
    assert "<tr><th>record</th><td>the last of 2</td></tr><tr><th>mean</th><td>8</td></tr>" in curve


def test_the_spread_of_huge_numbers_does_not_overflow():
    small = np.array([[1.0, 2.0], [2.0, 5.0], [4.0, 3.0]])
    huge = regret.summarize(small * [2.0**990, 1.0])
    plain = regret.summarize(small)
    for name in ("mean", "sd", "low", "high"):
        np.testing.assert_allclose(getattr(huge, name), getattr(plain, name) * [2.0**990, 1.0], rtol=1e-12)


def test_the_share_of_seeds_above_a_threshold_has_its_exact_interval():
    values = np.arange(40.0)[:, None] * [1.0, 2.0]
    share = regret.summarize(values).exceeding(35.0)
    assert share.value.tolist() == [4 / 40, 22 / 40]
    for place, count in enumerate((4, 22)):
        ends = stats.beta.ppf([0.025, 0.975], [count, count + 1], [41 - count, 40 - count])
        np.testing.assert_allclose([share.low[place], share.high[place]], ends, rtol=1e-9)
    ill = regret.summarize([1.0, np.inf], [0, 3]).exceeding(0.5)
    assert (float(ill.value), ill.n, ill.unhealthy) == (1.0, 1, 1)
    assert np.isnan(regret.summarize([1.0], [3]).exceeding(0.5).value)
    for wrong in (np.nan, "a", None, True, [1.0, 2.0]):
        with pytest.raises(ValueError, match=r"threshold=.*: must be a number"):
            regret.summarize(values).exceeding(wrong)
