"""Tail indices, and bandits from logs: known indices and coverage, and a log made of a known theta and law."""

import csv
import pickle

import jax
import numpy as np
import pytest
from scipy import stats

import linbet_jax as lb
from linbet_jax import cli, tails
from linbet_jax.noise import Empirical, EmpiricalPerArm
from linbet_jax.statistics import logs
from linbet_jax.sweep import read

ARMS = np.array([[1.0, 0.0, 0.2], [0.0, 1.0, 0.1], [0.6, 0.6, -0.3], [-0.4, 0.8, 0.5], [0.7, -0.2, 0.9]])
THETA = np.array([0.5, -0.3, 0.8])


def pareto(random, alpha, size):
    return random.uniform(size=size) ** (-1 / alpha)


# Tail indices


def test_hill_is_the_formula():
    values = np.random.default_rng(0).standard_t(3, size=60)
    top = sorted(values, reverse=True)
    for k in (4, 9, 15):
        one = sum(np.log(top[i]) - np.log(top[k]) for i in range(k)) / k
        two = sum((np.log(top[i]) - np.log(top[k])) ** 2 for i in range(k)) / k
        (index,) = tails.hill(values, [k]).alpha
        assert index == pytest.approx(1 / one, rel=1e-12)
        (index,) = tails.moment(values, [k]).alpha
        gamma = one + 1 - 0.5 / (1 - one**2 / two)
        assert index == pytest.approx(1 / gamma if gamma > 0 else np.inf, rel=1e-9)
        gamma = np.log((top[k - 1] - top[2 * k - 1]) / (top[2 * k - 1] - top[4 * k - 1])) / np.log(2)
        (index,) = tails.pickands(values, [k]).alpha
        assert index == pytest.approx(1 / gamma if gamma > 0 else np.inf, rel=1e-9)


@pytest.mark.parametrize("alpha", [1.2, 2.5])
@pytest.mark.parametrize(("method", "k"), [("hill", 80), ("moment", 150), ("pickands", 200)])
def test_intervals_hold_the_index_of_a_pareto_law_as_often_as_they_say(alpha, method, k):
    random = np.random.default_rng(1)
    runs = 300
    curves = [tails.ESTIMATORS[method](pareto(random, alpha, 2000), [k]) for _ in range(runs)]
    held = sum(bool(curve.low[0] <= alpha <= curve.high[0]) for curve in curves)
    # Exact for Hill's, asymptotic for the others: four binomial standard errors about 0.95, and 0.03 more for those.
    slack = 4 * np.sqrt(0.95 * 0.05 / runs) + (0.0 if method == "hill" else 0.03)
    assert abs(held / runs - 0.95) <= min(slack, 0.08)
    assert np.median([curve.alpha[0] for curve in curves]) == pytest.approx(alpha, rel=0.06)
    # An interval that is too wide would hold it as well: gamma = 1/alpha within 1.96 standard errors of each method.
    gamma = 1 / alpha
    pickands = gamma * np.sqrt(2 ** (2 * gamma + 1) + 1) / (2 * np.log(2) * (2**gamma - 1))
    error = {"hill": gamma, "moment": np.sqrt(1 + gamma**2), "pickands": pickands}[method] / np.sqrt(k)
    width = np.median([1 / curve.low[0] - 1 / max(curve.high[0], 1e-9) for curve in curves if curve.high[0] < np.inf])
    assert width == pytest.approx(2 * 1.96 * error, rel=0.06)


def test_a_light_tail_is_told_from_a_heavy_one():
    random = np.random.default_rng(2)
    light = tails.moment(np.abs(random.normal(size=5000))).usual
    heavy = tails.moment(np.abs(random.standard_t(1.5, size=5000))).usual
    assert light.high == np.inf
    assert light.low > heavy.high
    assert tails.hill(np.abs(random.standard_t(3, size=20_000))).usual.low > 2


def test_hill_s_index_does_not_depend_on_the_unit_and_pickands_not_on_the_place():
    values = pareto(np.random.default_rng(3), 1.5, 400)
    np.testing.assert_allclose(tails.hill(1e7 * values).alpha, tails.hill(values).alpha, rtol=1e-9)
    np.testing.assert_allclose(tails.pickands(values + 50, [20]).alpha, tails.pickands(values, [20]).alpha, rtol=1e-9)


def test_the_usual_count_is_a_rule_of_the_size_alone():
    assert [tails.usual_count(n) for n in (20, 100, 400, 1000, 10**6)] == [4, 10, 40, 50, 1000]
    curve = tails.hill(pareto(np.random.default_rng(4), 2, 900))
    assert curve.usual.k == 50
    assert np.all(np.diff(curve.counts) > 0)


@pytest.mark.parametrize(
    ("values", "counts", "message"),
    [
        (np.ones(5), None, "at least 20"),
        ([*range(1, 31), np.nan], None, "must be finite, got nan at index 30"),
        (-np.ones(30), None, "positive numbers that differ"),
        (np.full(30, 2.0), None, "positive numbers that differ"),
        (np.arange(1, 31.0), [30], "from 1 to 29"),
        (np.arange(1, 31.0), [3, 5.9], r"whole numbers from 1 to 29, got \[5\.9\]"),
        (np.arange(1, 31.0), ["4"], "a list of whole numbers"),
        (np.minimum(np.arange(1, 31.0), 26.0), [2], r"from 5 to 29, as the 5 largest numbers are equal, got \[2\]"),
    ],
)
def test_what_has_no_tail_is_refused(values, counts, message):
    with pytest.raises(ValueError, match=message):
        tails.hill(values, counts)


@pytest.mark.parametrize(("n", "equal"), [(400, 3), (400, 60), (400, 250), (41, 40)])
@pytest.mark.parametrize("method", tails.ESTIMATORS)
def test_equal_numbers_at_the_top_are_no_heavy_tail(method, n, equal):
    values = np.linspace(1.0, 2.0, n)
    values[-equal:] = 2.0
    curve = tails.ESTIMATORS[method](values)
    numbers = np.array([curve.alpha, curve.low, curve.high, *(np.full_like(curve.low, x) for x in curve.usual[:3])])
    assert not np.isnan(numbers).any()
    assert np.all(curve.alpha > 0.5)  # of a bounded law; equal excesses once gave 1e-15
    assert np.all(curve.low <= curve.alpha)
    assert curve.counts[0] >= equal
    if method == "moment":
        for few in (1, equal):
            with pytest.raises(ValueError, match=f"from {equal + 1} to .* the {equal} largest"):
                tails.moment(values, [few])
    if method == "pickands" and equal == 250:  # all of X_k, X_2k and X_4k may be equal
        (alpha, low, high), *_ = zip(curve.alpha, curve.low, curve.high, strict=True)
        assert (alpha, low, high) == (np.inf, 0.0, np.inf)


# A log made of a known theta and law


def made(law, seed=0, size=4000):
    """Features `[n, 3]` and payoffs `[n]`."""
    rows = ARMS[np.random.default_rng(seed).integers(len(ARMS), size=size)]
    noise = law.sample(jax.random.key(seed), 0.0, (size,), "float64")
    return rows, rows @ THETA + np.asarray(noise)


@pytest.fixture(scope="module")
def fit():
    return lb.from_log(*made(lb.noise.StudentT(2.2, scale=0.3)), resamples=200)


def test_a_log_gives_back_what_it_was_made_of(fit):
    order = np.lexsort(ARMS.T[::-1])
    np.testing.assert_array_equal(fit.bandit.arms, ARMS[order])
    # Three standard errors: the noise's deviation is 1, the third feature's mean square 0.24.
    np.testing.assert_allclose(fit.bandit.theta_star, THETA, atol=0.1)
    assert fit.counts.sum() == 4000
    assert stats.kstest(fit.residuals, fit_law().cdf).pvalue > 1e-3
    assert fit.tails["hill"].usual.low < 2.2 < fit.tails["moment"].usual.high
    assert 0.3 < fit.supported_epsilon == fit.epsilon <= 1.0
    assert fit.bandit.noise == Empirical(fit.residuals)
    assert fit.gap == pytest.approx(np.diff(np.sort(fit.bandit.means))[-1])


def fit_law():
    return lb.noise.StudentT(2.2, scale=0.3)


def test_the_moments_are_the_residuals_and_their_intervals_hold_the_law_s(fit):
    order = 1 + fit.epsilon
    assert fit.central_moment.value == pytest.approx(np.mean(np.abs(fit.residuals) ** order), rel=1e-6)
    assert fit.bandit.central_moment_bound == pytest.approx(float(fit.central_moment.value), rel=1e-12)
    assert fit.bandit.raw_moment_bound == pytest.approx(float(fit.raw_moment.value), rel=1e-12)
    assert fit.central_moment.low < fit.central_moment.value < fit.central_moment.high
    assert fit.central_moment.low < fit_law().central_moment(order) < 1.2 * fit.central_moment.high


def test_lopsided_payoffs_keep_their_means_and_one_wild_payoff_moves_little():
    rows, payoffs = made(lb.noise.CenteredPareto(2.5, scale=0.5), seed=3)
    fair = lb.from_log(rows, payoffs, resamples=50)
    np.testing.assert_allclose(fair.bandit.theta_star, THETA, atol=0.06)  # an ordinary Huber fit is off by 0.2
    payoffs = payoffs.copy()
    payoffs[0] += 1e6
    wild = lb.from_log(rows, payoffs, epsilon=fair.epsilon, resamples=50)
    plain = np.linalg.lstsq(rows, payoffs)[0]
    assert np.max(np.abs(plain - THETA)) > 50
    assert np.max(np.abs(np.asarray(wild.bandit.theta_star) - THETA)) < 0.2 * np.max(np.abs(plain - THETA))


def test_an_epsilon_beyond_the_data_is_warned_of_and_none_at_all_is_refused():
    rows, payoffs = made(lb.noise.StudentT(1.5, scale=0.3), seed=1)
    with pytest.warns(UserWarning, match=r"epsilon = 1 is above 0\.\d+, the largest that the data support"):
        asked = lb.from_log(rows, payoffs, epsilon=1.0, resamples=50)
    assert asked.epsilon == 1.0
    assert 0 < asked.supported_epsilon < 0.6
    assert asked.notes[0].startswith("epsilon = 1 is above")
    cauchy = rows @ THETA + np.random.default_rng(0).standard_cauchy(len(rows))
    with pytest.raises(ValueError, match="the data support none"):
        lb.from_log(rows, cauchy)


def test_payoffs_that_a_cap_cut_are_said_to_look_so():
    rows, payoffs = made(lb.noise.StudentT(1.5, scale=0.3), seed=1)
    fit = lb.from_log(rows, np.clip(payoffs, -2.0, 2.0), epsilon=0.5, resamples=50)
    capped = [note for note in fit.notes if note.startswith("payoffs look capped")]
    assert [note.split("the tail are the ")[1].split(";")[0] for note in capped] == ["largest, 2", "smallest, -2"]
    rows, payoffs = made(lb.noise.StudentT(2.2, scale=0.3), seed=1)
    whole = lb.from_log(rows, np.maximum(payoffs, 0.0), epsilon=0.2, resamples=50)
    assert not any("capped" in note for note in whole.notes)  # its many zeros are not in the tail


def test_each_arm_may_keep_its_own_residuals():
    rows, payoffs = made(lb.noise.Gaussian(0.1), seed=2)
    loud = np.all(rows == ARMS[0], axis=1)
    payoffs = np.where(loud, rows @ THETA + 10 * (payoffs - rows @ THETA), payoffs)
    fit = lb.from_log(rows, payoffs, per_arm=True, epsilon=1.0, resamples=50)
    deviations = fit.bandit.noise.std(fit.bandit.means)
    place = int(np.flatnonzero((fit.bandit.arms == ARMS[0]).all(axis=1))[0])
    assert deviations[place] == pytest.approx(1.0, rel=0.1)
    np.testing.assert_allclose(np.delete(deviations, place), 0.1, rtol=0.1)
    assert fit.bandit.central_moment_bound == pytest.approx(deviations[place] ** 2)
    policy, params = lb.make_policy("uniform", fit.bandit, horizon=50)
    run = lb.simulate(policy, params, fit.bandit, horizon=50, num_seeds=2, key=jax.random.key(0))
    assert not run.health.any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"payoffs": np.zeros(7)}, "got shapes"),
        ({"features": np.ones((50, 2)), "payoffs": np.arange(50.0)}, "full rank 2, got 1"),
        ({"features": np.eye(3), "payoffs": np.zeros(3)}, "at least 20 rows"),
        ({"epsilon": 1.5}, "0 < epsilon <= 1"),
        ({"epsilon": "x"}, "0 < epsilon <= 1, got 'x'"),
        ({"columns": ["a"]}, r"columns must be 3 names, got 1"),
        ({"columns": "abc"}, r"columns must be 3 names, got 'abc'"),
        ({"arms": [["a"]]}, r"arms must be \[K, d\] numbers: could not convert string to float: 'a'"),
        ({"arms": [[1.0]]}, "d = 3"),
        ({"arms": ARMS, "per_arm": True}, "per_arm"),
        ({"payoffs": np.full(4000, np.nan)}, "payoffs must be finite"),
    ],
)
def test_what_is_no_log_is_refused(change, message):
    rows, payoffs = made(lb.noise.Gaussian(0.1))
    with pytest.raises(ValueError, match=message):
        lb.from_log(**{"features": rows, "payoffs": payoffs, **change})
    with pytest.raises(ValueError, match="no noise to fit"):
        lb.from_log(rows, rows @ THETA)


def test_arms_that_are_given_need_no_rows_of_the_log():
    rows, payoffs = made(lb.noise.Gaussian(0.1))
    new = np.vstack([ARMS[1], [9.0, 9.0, 9.0]])
    fit = lb.from_log(rows, payoffs, arms=new, resamples=50)
    assert fit.counts.tolist() == [int(np.all(rows == ARMS[1], axis=1).sum()), 0]
    many = np.random.default_rng(0).normal(size=(1200, 2))
    with pytest.raises(ValueError, match="more than 1000 distinct rows"):
        lb.from_log(many, many @ [1.0, 2.0] + np.random.default_rng(1).normal(size=1200), epsilon=1.0)


# The law of each arm's own numbers


def test_empirical_per_arm_draws_each_arm_s_own_numbers_and_knows_their_moments():
    law = EmpiricalPerArm([2.0, -1.0], [[0.0, 3.0], [5.0, 5.0, 11.0]])
    assert law == pickle.loads(pickle.dumps(law))
    assert hash(law) == hash(EmpiricalPerArm([-1.0, 2.0], [[11.0, 5.0, 5.0], [3.0, 0.0]]))
    for dtype in ("float32", "float64"):
        high = np.asarray(law.sample(jax.random.key(0), 2.0, (4000,), dtype))
        low = np.asarray(law.sample(jax.random.key(1), -1.0, (4000,), dtype))
        assert sorted(set(high)) == [0.5, 3.5]
        assert sorted(set(low)) == [-3.0, 3.0]
        assert abs(np.mean(high == 0.5) - 1 / 2) < 0.04
        assert abs(np.mean(low == 3.0) - 1 / 3) < 0.04
    assert law.raw_moment(1.5, [2.0, -1.0]).tolist() == pytest.approx([(0.5**1.5 + 3.5**1.5) / 2, 3.0**1.5])
    assert law.central_moment(2.0, -1.0) == pytest.approx(8.0)
    assert law.moment_bounds(2.0, -1.0, 2.0) == pytest.approx((9.0, 8.0))
    assert law.cdf([0.4, 0.5, 3.5], 2.0).tolist() == [0.0, 0.5, 1.0]
    with pytest.raises(ValueError, match="must differ"):
        EmpiricalPerArm([1.0, 1.0], [[0.0], [0.0]])
    for means, message in (
        ([1.0], "one finite number for each list of residuals, got 1 for 2 lists"),
        (["a", "b"], r"one finite number for each list of residuals, got \['a', 'b'\]"),
        ([100.000001, 100.0], r"differ by more than float32 rounds, got 100\.0 and 100\.000001"),
    ):
        with pytest.raises(ValueError, match=message):
            EmpiricalPerArm(means, [[0.0], [0.0]])
    near = EmpiricalPerArm([100.0, 100.001], [[-1.0, 1.0], [-2.0, 2.0]])
    assert set(np.abs(np.asarray(near.sample(jax.random.key(0), 100.001, (100,), "float32")) - 100).round()) == {2.0}


# Files and the command


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A log with a column of text, and an empty entry in a column of numbers and in that of text."""
    random = np.random.default_rng(5)
    path = tmp_path_factory.mktemp("logs") / 'my "trípş".csv'
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["carrier", "short", "minutes"])
        for _ in range(600):
            carrier, short = random.integers(3), int(random.integers(2))
            payoff = [1.0, 2.0, 4.0][carrier] - 0.5 * short + random.standard_t(3)
            writer.writerow(["ABC"[carrier], short, payoff])
        writer.writerow(["A", "", 1.0])
        writer.writerow(["", "1", 1.0])
    return path


def test_a_file_s_text_becomes_indicators(file, tmp_path):
    rows, payoffs, names = logs.read_log(file)
    assert names == ["carrier=A", "carrier=B", "carrier=C", "short"]
    assert rows.shape == (600, 4)
    assert set(rows[:, :3].sum(axis=1)) == {1.0}
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table({"y": payoffs, "name": ["ab"[int(x)] for x in rows[:, 3]], "kind": ["u", "v"] * 300})
    parquet.write_table(table, tmp_path / "log.parquet")
    again, seen, columns = logs.read_log(tmp_path / "log.parquet", "y")
    assert columns == ["name=a", "name=b", "kind=v"]
    np.testing.assert_array_equal(seen, payoffs)
    np.testing.assert_array_equal(again[:, 1], rows[:, 3])
    (tmp_path / "twice.csv").write_text("a,b,a\n1,2,3\n")
    with pytest.raises(ValueError, match=r"columns must be None for a file.*got \['a'\]"):
        lb.from_log(file, columns=["a"])
    for path, column, message in (
        (tmp_path / "none.csv", None, "there is no file"),
        (tmp_path / "log.txt", None, r"must end in \.csv"),
        (file, "hours", "no column 'hours'; it has carrier, short, minutes"),
        (tmp_path / "log.parquet", "name", "payoffs: the column 'name' of .* must hold numbers, it holds string"),
        (file, "", "no column ''"),
        (tmp_path / "twice.csv", None, "one column of each name, got 'a' twice"),
    ):
        with pytest.raises(ValueError, match=message):
            lb.from_log(path, column)


def test_the_command_prints_the_fit_and_writes_a_sweep_that_is_read(file, tmp_path, capsys):
    out = tmp_path / "out"
    assert cli.main(["fit", str(file), "--epsilon", "0.5", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "600 rows; 6 arms in 4 dimensions" in said
    assert "tail index" in said
    assert sorted(path.name for path in out.iterdir()) == [
        "my_tr_p-arms.csv", "my_tr_p-residuals.npy", "my_tr_p-tail.pdf", "my_tr_p-tail.png", "my_tr_p-theta_star.csv",
        "my_tr_p.toml",
    ]  # fmt: skip
    sweep = read(out / "my_tr_p.toml")
    assert sweep.name == 'fitted to my "trípş".csv'
    assert {cell.policy.source for cell in sweep.cells} == {"oful", "uniform", "hvt_ucb", "crt", "tofu"}
    from linbet_jax.sweep import cells

    planned = cells.plan(sweep, {}, "cpu")
    assert planned[0].entry["bandit"]["law"] == "empirical(600)"
    assert planned[0].entry["bandit"]["K"] == 6
    fit = lb.from_log(file, epsilon=0.5)
    from linbet_jax.sweep import work

    built = work.build_bandit(planned[0].spec["set"], 0)
    np.testing.assert_array_equal(built.theta_star, fit.bandit.theta_star)
    assert built.noise == fit.bandit.noise
    assert cli.main(["fit", str(file), "--payoff", "hours", "--out", str(out)]) == 2
    assert "no column 'hours'" in capsys.readouterr().err


def test_a_sweep_file_names_the_residuals_file_or_is_refused(file, tmp_path):
    (tmp_path / "arms.csv").write_text("1.0,0.0\n0.0,1.0\n")
    text = "horizon = 500\n[policies.crt]\n[sets.x]\narms = 'arms.csv'\ntheta_star = [1.0, 0.5]\nnoise = {}\n"
    from linbet_jax.sweep import cells

    for noise, message in (
        ("{ law = 'Empirical', residuals = 'none.npy' }", "noise.residuals: there is no file"),
        ("{ law = 'Empirical', residuals = 3 }", "must be the name of a .csv, .npy or .parquet file"),
        ("{ law = 'Empirical' }", "noise.residuals: is missing"),
    ):
        (tmp_path / "x.toml").write_text(text.format(noise), encoding="utf-8")
        with pytest.raises(ValueError, match=message):
            cells.plan(read(tmp_path / "x.toml"), {}, "cpu")


def test_a_fit_overwrites_nothing_that_says_something_else(file, tmp_path, capsys):
    out = tmp_path / "out"
    ask = ["fit", str(file), "--epsilon", "0.5", "--out", str(out), "--quiet"]
    assert cli.main(ask) == 0
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.suffix != ".pdf"}
    assert cli.main(ask) == 0  # the same again
    (out / "my_tr_p-arms.csv").rename(out / "kept")
    log = out / "my_tr_p-arms.csv"  # a log by the name of a file that is to be written
    log.write_bytes(file.read_bytes())
    for wrong in (ask, ["fit", str(log), "--epsilon", "0.5", "--out", str(out)]):
        assert cli.main(wrong) == (2 if wrong is ask else 0)
    assert log.read_bytes() == file.read_bytes()
    assert "my_tr_p-arms.csv is there and says something else; name another folder" in capsys.readouterr().err
    assert all((out / name).read_bytes() == content for name, content in before.items() if "-arms" not in name)
    assert cli.main([*ask[:-2], "/proc/none", "--quiet"]) == 2
    assert "--out /proc/none: " in capsys.readouterr().err


def test_a_log_is_refused_where_its_first_line_or_its_numbers_mislead(tmp_path):
    rows = "\n".join(f"{i % 3},{i % 2},{i % 7}.5" for i in range(60))
    for head, message in (
        (",b,y", "must not hold pandas' index, column ''; write it with index=False"),
        ("1,2,3", "the first line of .* must name its columns, it reads '1,2,3'"),
        ("a;b;y", "it holds 1; its entries must be separated by commas, not ';'"),
    ):
        lines = rows.replace(",", ";") if ";" in head else rows
        (tmp_path / "log.csv").write_text(f"{head}\n{lines}\n", encoding="utf-8")
        with pytest.raises(ValueError, match=message):
            lb.from_log(tmp_path / "log.csv")
    (tmp_path / "log.csv").write_bytes(b"a,\xe4,y\n" + rows.encode())
    with pytest.raises(ValueError, match=r"log\.csv cannot be read"):
        lb.from_log(tmp_path / "log.csv")
    (tmp_path / "log.csv").write_text(f"a,b,y\n{rows}\n1,,3\n", encoding="utf-8")
    assert "1 rows with an empty entry were left out" in lb.from_log(tmp_path / "log.csv", epsilon=0.5).notes
    random = np.random.default_rng(3)
    features, noise = random.normal(size=(200, 2)), random.normal(size=200)
    arms = {"arms": np.eye(2), "epsilon": 0.5, "resamples": 50}
    plain = lb.from_log(features, features @ [1.0, 2.0] + noise, **arms)
    tiny = lb.from_log(features * [1.0, 1e12], 1e-13 * (features @ [1.0, 2.0] + noise), **arms)
    np.testing.assert_allclose(tiny.bandit.theta_star, plain.bandit.theta_star * [1e-13, 1e-25], rtol=1e-6)
    with pytest.raises(ValueError, match=r"payoffs must be at most 1e\+100 in size, got"):
        lb.from_log(features, 1e200 * noise, **arms)
    with pytest.raises(ValueError, match="must be real numbers, got complex ones"):
        lb.from_log(features, 1j * noise, **arms)
    with pytest.raises(ValueError, match="per_arm='no': must be True or False"):
        lb.from_log(features, noise, per_arm="no")


def test_dials_that_leave_no_basis_are_named():
    with pytest.raises(ValueError, match=r"angle=1e-300, length=1: the arms must not be so far from a basis"):
        lb.datasets.separating("lock", angle=1e-300)
