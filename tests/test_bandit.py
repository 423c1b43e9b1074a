"""Bandits: what is computed from an instance, what is refused, and the three kinds of decision sets."""

import dataclasses
import math
import pickle
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from traces import compiled_quickly

import linbet_jax as lb
from linbet_jax.bandits import bandit as module
from linbet_jax.bandits.bandit import LinearBandit
from linbet_jax.noise import Gaussian, LogNormal, Pareto, PayoffLaw, StudentT, TwoPoint
from linbet_jax.storage.provenance import instance_digest

# Nearly every program runs once, and briefly.
quick_compiles = pytest.fixture(autouse=True, scope="module")(compiled_quickly)

ARMS = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 2.0], [1.0, 1.0]])
THETA = np.array([0.5, 0.25])
MEANS = [0.5, 0.5, 0.5, 0.75]
T3 = StudentT(3.0)


def test_everything_is_computed_from_the_instance():
    bandit = LinearBandit(arms=ARMS, theta_star=THETA, noise=StudentT(3.0))
    assert bandit.arms.dtype == bandit.theta_star.dtype == bandit.means.dtype == np.float64
    np.testing.assert_array_equal(bandit.arms, ARMS)
    np.testing.assert_allclose(bandit.means, MEANS, rtol=1e-15)
    assert (bandit.num_arms, bandit.dim) == (4, 2)
    assert bandit.epsilon == 1.0
    assert bandit.central_moment_bound == 3.0
    assert bandit.raw_moment_bound == pytest.approx(3.0 + 0.75**2, rel=1e-15)
    assert bandit.theta_norm == pytest.approx(math.hypot(0.5, 0.25), rel=1e-15)
    assert bandit.arm_norm == 2.0
    assert bandit.mean_bound == bandit.best_mean == 0.75
    assert bandit.noise_std == math.sqrt(3.0)
    assert bandit.name == "custom"
    assert not bandit.changing
    assert not bandit.resampling
    for field in ("raw_moment_bound", "central_moment_bound", "theta_norm", "arm_norm", "mean_bound", "best_mean"):
        assert type(getattr(bandit, field)) is float


def test_moments_are_the_largest_over_the_arms():
    law = Pareto(2.0)
    bandit = LinearBandit(ARMS, THETA, law, epsilon=0.5)
    assert bandit.raw_moment_bound == pytest.approx(4.0 * 0.375**1.5, rel=1e-14)
    assert bandit.central_moment_bound == pytest.approx(law.central_moment(1.5, 0.75), rel=1e-14)
    assert bandit.noise_std == math.inf
    bandit = LinearBandit(ARMS, -THETA, CENTRED := StudentT(3.0), epsilon=0.5)
    assert bandit.raw_moment_bound == pytest.approx(CENTRED.raw_moment(1.5, 0.75), rel=1e-14)
    assert bandit.mean_bound == 0.75
    assert bandit.best_mean == -0.5
    two_point = LinearBandit([[0.5], [0.9]], [1.0], TwoPoint(1.0))
    assert two_point.central_moment_bound == 0.25  # of the arm with the mean 1/2, not of the best
    assert two_point.raw_moment_bound == 0.9


@pytest.mark.parametrize(("num_arms", "dim"), [(3, 7), (7, 3), (1, 1), (2, 2)])
def test_p5_any_shape(num_arms, dim):
    bandit = LinearBandit(np.ones((num_arms, dim)), np.ones(dim), Gaussian())
    assert bandit.means.tolist() == [float(dim)] * num_arms


def test_p10_zero_arms():
    for law in (Pareto(2.0), LogNormal(1.0), StudentT(3.0), TwoPoint(1.0)):
        bandit = LinearBandit(np.zeros((2, 3)), np.ones(3), law, epsilon=0.5)
        assert bandit.best_mean == bandit.mean_bound == bandit.arm_norm == 0.0
        assert math.isfinite(bandit.raw_moment_bound)


def test_inputs_are_copied_and_read_only():
    arms, theta = ARMS.copy(), THETA.copy()
    bandit = LinearBandit(arms, theta, Gaussian())
    arms[:], theta[:] = 9.0, 9.0
    np.testing.assert_array_equal(bandit.arms, ARMS)
    np.testing.assert_array_equal(bandit.theta_star, THETA)
    for array in (bandit.arms, bandit.theta_star, bandit.means):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        bandit.epsilon = 0.5
    from_jax = LinearBandit(jnp.asarray(ARMS), jnp.asarray(THETA), Gaussian())
    assert from_jax == bandit
    assert LinearBandit([[1, 2], [3, 4]], [1, 1], Gaussian()).means.tolist() == [3.0, 7.0]


def test_bandits_are_values():
    bandit = LinearBandit(ARMS, THETA, StudentT(3.0))
    same = LinearBandit(ARMS.tolist(), THETA.tolist(), StudentT(3))
    assert bandit == same
    assert hash(bandit) == hash(same)
    assert bandit != LinearBandit(ARMS, THETA, StudentT(3.0), name="other")
    assert bandit != LinearBandit(ARMS[:, ::-1], THETA, StudentT(3.0))
    assert bandit != "bandit"
    clone = pickle.loads(pickle.dumps(bandit))
    assert clone == bandit
    assert not clone.arms.flags.writeable
    assert not clone.means.flags.writeable
    assert "arms=" not in repr(bandit).replace("num_arms=", "")
    assert "theta_star" not in repr(bandit)


def test_declared_bounds_are_kept_when_they_hold():
    bandit = LinearBandit(
        ARMS,
        THETA,
        StudentT(3.0),
        epsilon=0.5,
        raw_moment_bound=10,
        central_moment_bound=9.0,
        theta_norm=2.0,
        arm_norm=3.0,
        mean_bound=6.0,
        name="declared",
    )
    assert (bandit.raw_moment_bound, bandit.central_moment_bound) == (10.0, 9.0)
    assert (bandit.theta_norm, bandit.arm_norm, bandit.mean_bound) == (2.0, 3.0, 6.0)
    assert bandit.epsilon == 0.5
    assert bandit.name == "declared"


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("raw_moment_bound", 3.0, r"raw_moment_bound must be at least 3\.5625.*got 3\.0"),
        ("central_moment_bound", 2.9, r"central_moment_bound must be at least 3\.0.*got 2\.9"),
        ("theta_norm", 0.5, r"theta_norm must be at least 0\.559.*got 0\.5"),
        ("arm_norm", 1.0, r"arm_norm must be at least 2\.0.*got 1\.0"),
        ("mean_bound", 0.7, r"mean_bound must be at least 0\.75.*got 0\.7"),
        ("raw_moment_bound", math.nan, "raw_moment_bound must be finite, got nan"),
        ("theta_norm", -1.0, "0 <= theta_norm < inf, got -1.0"),
        ("arm_norm", math.inf, "arm_norm must be finite, got inf"),
        ("mean_bound", "large", "mean_bound must be one finite number, got 'large'"),
        ("epsilon", 0.0, "0 < epsilon <= 1, got 0.0"),
        ("epsilon", 1.5, "0 < epsilon <= 1, got 1.5"),
        ("epsilon", math.nan, "epsilon must be finite, got nan"),
        ("epsilon", [0.5, 1.0], "epsilon must be one finite number"),
        ("name", "", "name must be a non-empty string, got ''"),
        ("name", 3, "name must be a non-empty string, got 3"),
        ("noise", "t", "noise must be a payoff law .* got 't'"),
        ("noise", StudentT, "noise must be a payoff law"),
        ("arms", [1.0, 2.0], r"arms must be a 2-D array .* got shape \(2,\)"),
        ("arms", np.zeros((0, 2)), r"arms must be .* got shape \(0, 2\)"),
        ("arms", [["a", "b"]], "arms must be a 2-D array of real numbers"),
        ("arms", [[1.0, 2.0], [3.0]], "arms must be a 2-D array of real numbers"),
        ("arms", [[1.0, math.nan]], r"arms must be finite, got nan at index \(0, 1\)"),
        ("arms", np.array([[1.0, 1j]]), "arms must be a 2-D array of real numbers"),
        ("arms", [["1", "2"]], "arms must be a 2-D array of real numbers"),
        ("theta_norm", np.True_, "theta_norm must be one finite number, got np.True_"),
        ("theta_star", [1.0, 2.0, 3.0], "theta_star must have length 2 .* got length 3"),
        ("theta_star", [[1.0, 2.0]], r"theta_star must be a 1-D array .* got shape \(1, 2\)"),
        ("theta_star", [1.0, -math.inf], r"theta_star must be finite, got -inf at index \(1,\)"),
        ("theta_star", [1e308, 1e308], "means must be finite"),
    ],
)
def test_wrong_inputs_are_refused(field, value, message):
    arguments = {"arms": ARMS, "theta_star": THETA, "noise": StudentT(3.0), field: value}
    with pytest.raises(ValueError, match=message):
        LinearBandit(**arguments)


def test_n5_inadmissible_epsilon_names_the_largest():
    with pytest.raises(ValueError, match=r"epsilon must satisfy 0 < epsilon < 1 for Student t\(2\).* got 1\.0"):
        LinearBandit(ARMS, THETA, StudentT(2.0), epsilon=1.0)
    with pytest.raises(ValueError, match=r"epsilon must satisfy 0 < epsilon < 0\.5 for Pareto\(1\.5\).* got 0\.5"):
        LinearBandit(ARMS, THETA, Pareto(1.5), epsilon=0.5)
    with pytest.raises(ValueError, match=r"epsilon must be given for Pareto\(2\).*0 < epsilon < 1, got None"):
        LinearBandit(ARMS, THETA, Pareto(2.0))
    assert LinearBandit(ARMS, THETA, Pareto(2.0), epsilon=0.999).epsilon == 0.999


def test_means_must_suit_the_law():
    with pytest.raises(ValueError, match=r"Pareto\(3\): means .* 0 <= mean <= inf, got -0\.5"):
        LinearBandit(ARMS, -THETA, Pareto(3.0))
    with pytest.raises(ValueError, match=r"two-point\(0\.6\): means .* 0 <= mean <= 0\.6, got 0\.75"):
        LinearBandit(ARMS, THETA, TwoPoint(0.6))


# Laws of one's own ----------------------------------------------------------------------------------------------------


class Drawn:
    """Mean plus or minus one, without a moment; no base class."""

    name, max_order, mean_range = "coin", math.inf, (-math.inf, math.inf)

    def standard(self, key, dtype=None):
        return jax.random.rademacher(key, (), dtype)

    def payoff(self, standard, mean):
        return mean + standard


class Coin(Drawn):
    def raw_moment(self, order, mean=0.0):
        return 0.5 * (np.abs(np.asarray(mean) + 1.0) ** order + np.abs(np.asarray(mean) - 1.0) ** order)

    def central_moment(self, order, mean=0.0):
        return np.ones(np.shape(mean))

    def moment_bounds(self, order, low, high):
        return float(np.max(self.raw_moment(order, [low, high]))), 1.0


class Measured(Coin):
    def std(self, mean=0.0):
        return np.ones(np.shape(mean))


def test_a_law_of_ones_own():
    bandit = LinearBandit(ARMS, THETA, Coin())
    assert bandit.raw_moment_bound == 1.0 + 0.75**2
    assert bandit.central_moment_bound == 1.0
    assert bandit.noise_std == math.inf  # not told
    assert LinearBandit(ARMS, THETA, Measured()).noise_std == 1.0
    with pytest.raises(ValueError, match=r"coin: means must be finite with -inf <= mean <= inf, got inf"):
        LinearBandit([[1e308]], [1e308], Coin())


def test_a_law_may_have_a_rule_for_means_of_its_own():
    class Halves(StudentT):
        def check_means(self, means):
            if np.any(np.asarray(means) % 0.5):
                raise ValueError("means must be halves")

    assert LinearBandit(ARMS[:3], THETA, Halves(3.0)).best_mean == 0.5
    with pytest.raises(ValueError, match="means must be halves"):
        LinearBandit(ARMS, THETA, Halves(3.0))
    with pytest.raises(ValueError, match="means must be halves"):
        LinearBandit.resampled(cube, Halves(3.0), best_mean=0.75)


def test_moments_are_asked_for_where_a_bound_is_not_given():
    bounds = {"raw_moment_bound": 3.0, "central_moment_bound": 2.0}
    fixed = LinearBandit(ARMS, THETA, Drawn(), **bounds)
    changing = LinearBandit.changing_sets(sphere, [1.0, 0.0, 0.0], Drawn(), arm_norm=1.0, **bounds)
    resampled = LinearBandit.resampled(cube, Drawn(), best_mean=2.0, **bounds)
    for bandit in (fixed, changing, resampled):
        assert (bandit.raw_moment_bound, bandit.central_moment_bound, bandit.noise_std) == (3.0, 2.0, math.inf)


def test_a_subclass_of_the_protocol_must_write_what_is_needed():
    class Bare(PayoffLaw):
        name, max_order, mean_range = "bare", math.inf, (-math.inf, math.inf)

        def standard(self, key, dtype=None):
            return jnp.zeros((), dtype)

    class Half(Bare):
        def payoff(self, standard, mean):
            return mean + standard

        def raw_moment(self, order, mean=0.0):
            return np.abs(mean) ** order

    def message(law, build=LinearBandit, *arguments, **options):
        with pytest.raises(ValueError, match=r"^noise must be a payoff law") as caught:
            build(*(arguments or (ARMS, THETA)), law, **options)
        return str(caught.value)

    assert "Bare has no payoff, no raw_moment, no central_moment (needed without raw_moment_bound and" in message(
        Bare()
    )
    assert "Bare has no payoff, got" in message(Bare(), raw_moment_bound=1.0, central_moment_bound=1.0)
    assert "Half has no central_moment (needed without central_moment_bound), got" in message(
        Half(), raw_moment_bound=9.0
    )
    text = message(Half(), LinearBandit.resampled, cube, best_mean=2.0)
    assert "Half has no moment_bounds (needed without raw_moment_bound and central_moment_bound), got" in text
    assert LinearBandit(ARMS, THETA, Half(), central_moment_bound=0.0).raw_moment_bound == 0.75**2


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"name": None}, "noise: Other.name must be a non-empty string, got None"),
        ({"max_order": math.nan}, "noise: Other.max_order must be a number above 0, got nan"),
        ({"max_order": None}, "noise: Other.max_order must be a number above 0, got None"),
        ({"max_order": 0.0}, r"noise: Other.max_order must be a number above 0, got 0\.0"),
        ({"mean_range": None}, "noise: Other.mean_range must be two numbers, .* got None"),
        ({"mean_range": (1.0, 0.0)}, r"noise: Other.mean_range must be two numbers, .* got \(1\.0, 0\.0\)"),
        ({"mean_range": (math.nan, 0.0)}, r"noise: Other.mean_range must be two numbers, .* got \(nan, 0\.0\)"),
        ({"raw_moment": lambda self, order, mean: None}, "Other.raw_moment must return finite numbers .* got"),
        ({"central_moment": lambda self, order, mean: -mean}, "Other.central_moment must return finite numbers"),
        ({"std": lambda self, mean: mean * math.nan}, "noise: Other.std must return finite numbers that are at"),
        ({"raw_moment": lambda self, order, mean: math.inf}, "Other.raw_moment must return finite numbers .* got"),
        ({"raw_moment": lambda self, order, mean: math.pow(mean, order)}, "noise: Other.raw_moment fails: TypeError"),
        ({"standard": lambda self, key, dtype: np.sin(jax.random.normal(key))}, "Other.standard must use jax.numpy"),
        ({"standard": lambda self, key: 0.0}, "noise: Other.standard fails: TypeError: .* takes 2 positional"),
        ({"standard": lambda self, key, dtype: jnp.zeros(2)}, r"standard must draw one real number, .*\(3, 2\)"),
        (
            {"standard": lambda self, key, dtype: jnp.zeros((), complex)},
            "standard must draw one real number, .*complex",
        ),
        ({"payoff": lambda self, x, mean: float(mean)}, "noise: Other.payoff must use jax.numpy"),
        ({"payoff": lambda self, x, mean: None}, "payoff must return a real payoff for each variate, got .* None"),
        ({"payoff": lambda self, x, mean: mean}, r"payoff must return a real payoff for each variate, .*shape=\(\)"),
        ({"__eq__": lambda self, other: True}, "noise must be hashable, as a frozen dataclass is, or a pytree"),
    ],
)
def test_laws_that_answer_wrongly_are_refused(members, message):
    law = type("Other", (Measured,), members)()
    with pytest.raises(ValueError, match=message) as caught:
        LinearBandit(ARMS, THETA, law)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("told", [None, (math.nan, 1.0), (1.0, math.inf), (1.0, 2.0, 3.0), 1.0])
def test_moment_bounds_are_two_finite_numbers(told):
    law = type("Other", (Measured,), {"moment_bounds": lambda self, order, low, high: told})()
    with pytest.raises(ValueError, match=r"noise: Other.moment_bounds must return (finite|two) numbers"):
        LinearBandit.resampled(cube, law, best_mean=2.0)


def test_a_law_whose_numbers_are_traced_uses_them_with_jax():
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Traced(Coin):
        scale: float = 1.0

        def payoff(self, standard, mean):
            return mean + self.scale * standard

    class Capped(Traced):
        mean_range = property(lambda self: (0.0, max(1.0, self.scale)))

    class Rooted(Traced):
        def payoff(self, standard, mean):
            return mean + math.sqrt(self.scale) * standard

    assert LinearBandit(ARMS, THETA, Traced(2.0)).raw_moment_bound == 1.0 + 0.75**2
    for constant in (Capped, Rooted):
        assert LinearBandit(ARMS, THETA, constant(2.0)).best_mean == 0.75
        jax.tree_util.register_dataclass(constant, ["scale"], [])
        with pytest.raises(ValueError, match=r"noise: (Capped.mean_range|Rooted.payoff) must use jax.numpy"):
            LinearBandit(ARMS, THETA, constant(2.0))


def test_a_subclass_with_too_few_uniforms_is_refused():
    class Narrow(StudentT):
        uniforms = 1

    with pytest.raises(ValueError, match=r"noise: Narrow\.standard fails: .*not enough values to unpack"):
        LinearBandit(ARMS, THETA, Narrow(3.0))


def test_what_a_subclass_overrides_is_played():
    class Sevens(StudentT):
        def standard(self, key, dtype=None):
            return jnp.full((), 7, jnp.int32)  # integers are numbers too

    bandit = LinearBandit(ARMS, THETA, Sevens(3.0))
    policy, params = lb.make_policy("oful", bandit, horizon=3)
    result = lb.simulate(policy, params, bandit, horizon=3, num_seeds=1, key=jax.random.key(0), trace=True)
    np.testing.assert_allclose(result.trace.payoffs, bandit.means[result.trace.arms] + 7.0, rtol=1e-6)


def test_the_digest_of_a_law_has_no_address():
    class Mixture(Coin):  # no __repr__
        def __init__(self, weights, draw=jax.random.normal):
            self.weights, self.draw = weights, draw

    class Slots(Coin):
        __slots__ = ("weight",)

        def __init__(self, weight):
            self.weight = weight

    def digest(law):
        return instance_digest(LinearBandit(ARMS, THETA, law))

    laws = (
        *(lambda: StudentT(3.0), lambda: Gaussian(3.0), lambda: Coin(), lambda: Measured()),
        *(lambda: Mixture(np.array([0.5, 0.5])), lambda: Mixture(np.array([0.5, 0.4]))),
        *(lambda: Mixture([0.5, {"a": Coin()}]), lambda: Mixture([0.5, {"a": Measured()}])),
        *(lambda: Mixture({"b", "a"}), lambda: Mixture(0.5), lambda: Mixture(0.5, jax.random.laplace)),
        *(lambda: Slots(1.0), lambda: Slots(2.0)),
    )
    digests = [digest(law()) for law in laws]
    assert len(set(digests)) == len(laws)
    kept = [law() for law in laws]  # at other addresses than the first ones
    assert [digest(law) for law in kept] == digests
    for nameless in (lambda: 0.0, threading.Lock()):
        with pytest.raises(ValueError, match=r"noise: Mixture must hold numbers, .* alone, got <"):
            digest(Mixture(0.5, nameless))


# Changing decision sets -----------------------------------------------------------------------------------------------


def sphere(key, t):
    """Five arms on the unit sphere of R^3."""
    arms = jax.random.normal(jax.random.fold_in(key, t), (5, 3))
    return arms / jnp.linalg.norm(arms, axis=1, keepdims=True)


def test_changing_sets():
    theta = [0.0, 3.0, 4.0]
    bandit = LinearBandit.changing_sets(sphere, theta, StudentT(3.0), arm_norm=1.0)
    assert bandit.changing
    assert not bandit.resampling
    assert (bandit.num_arms, bandit.dim) == (5, 3)
    assert bandit.arms is bandit.means is bandit.best_mean is bandit.generator is None
    assert bandit.sampler is sphere
    assert (bandit.theta_norm, bandit.arm_norm, bandit.mean_bound) == (5.0, 1.0, 5.0)
    assert (bandit.raw_moment_bound, bandit.central_moment_bound) == (28.0, 3.0)
    assert bandit.noise_std == math.sqrt(3.0)
    assert hash(bandit) == hash(LinearBandit.changing_sets(sphere, theta, StudentT(3.0), arm_norm=1))
    assert pickle.loads(pickle.dumps(bandit)) == bandit
    arms = bandit.sampler(jax.random.key(0), jnp.int32(1))
    assert arms.shape == (5, 3)


def positive(key, t):
    """The same in the positive orthant."""
    return jnp.abs(sphere(key, t))


def test_changing_sets_bound_the_moments_over_all_allowed_means():
    law = Pareto(2.0)
    bandit = LinearBandit.changing_sets(positive, [0.0, 0.3, 0.4], law, arm_norm=1.0, epsilon=0.5, mean_bound=2.0)
    assert bandit.mean_bound == 2.0
    assert bandit.raw_moment_bound == pytest.approx(law.raw_moment(1.5, 2.0), rel=1e-14)
    coin = TwoPoint(3.0)
    bandit = LinearBandit.changing_sets(positive, [1.0, 0.0, 0.0], coin, arm_norm=9.0)
    assert bandit.central_moment_bound == pytest.approx(coin.central_moment(2.0, 1.5), rel=1e-14)
    assert bandit.raw_moment_bound == 9.0
    tight = LinearBandit.changing_sets(
        positive, [0.5, 0.0, 0.0], coin, arm_norm=9.0, raw_moment_bound=2.0, central_moment_bound=1.5, theta_norm=1.5
    )
    assert (tight.raw_moment_bound, tight.central_moment_bound, tight.theta_norm) == (2.0, 1.5, 1.5)


def test_samplers_are_held_against_what_is_declared():
    def refused(message, sampler=sphere, law=T3, theta=(3.0, 0.0, 4.0), **bounds):
        with pytest.raises(ValueError, match=message):
            LinearBandit.changing_sets(sampler, theta, law, **{"arm_norm": 1.0, **bounds})

    normal = lambda key, t: jax.random.normal(jax.random.fold_in(key, t), (5, 3))  # noqa: E731
    refused(r"arm_norm must be at least [3-5]\.\d+, the largest in a sample of 16 sets, got 0\.1", normal, arm_norm=0.1)
    refused(r"mean_bound must be at least 4\.\d+, the largest in a sample of 16 sets, got 4\.0", mean_bound=4.0)
    refused(r"raw_moment_bound must be at least 2\d\.\d+, the largest in a sample.* got 5\.0", raw_moment_bound=5.0)
    refused(r"central_moment_bound must be at least 3\.0, the largest in a sample.* got 2\.9", central_moment_bound=2.9)
    refused(r"within 0 <= mean <= inf, as Pareto\(3\) needs it, got -4\.\d+ in a sample of 16 sets", law=Pareto(3.0))
    refused(r"within 0 <= mean <= 2, as two-point\(2\) needs it, got 4\.\d+ in", sampler=positive, law=TwoPoint(2.0))
    late = lambda key, t: jnp.where(t < 4, 1.0, jnp.nan) * sphere(key, t)  # noqa: E731
    refused("sampler must return finite numbers, got others in a sample of 16 sets", late)
    with jax.enable_x64(False):  # norms of 1 but for the rounding of float32
        bandit = LinearBandit.changing_sets(sphere, [0.6, 0.0, 0.8], Gaussian(), arm_norm=1.0)
    assert bandit.mean_bound == 1.0


def test_large_sets_are_sampled_less(monkeypatch):
    monkeypatch.setattr(module, "_ENTRIES", 30)
    with pytest.raises(ValueError, match="in a sample of 2 sets, got 0.5"):
        LinearBandit.changing_sets(sphere, [1.0, 0.0, 0.0], Gaussian(), arm_norm=0.5)
    monkeypatch.setattr(module, "_ENTRIES", 3)
    with pytest.raises(ValueError, match="in a sample of 1 sets, got 0.5"):
        LinearBandit.changing_sets(sphere, [1.0, 0.0, 0.0], Gaussian(), arm_norm=0.5)


@pytest.mark.parametrize("field", ["sampler", "generator"])
def test_functions_that_fail_are_named(field):
    def raising(key, *pull):
        raise RuntimeError("no data\nat all")

    def build(function):
        if field == "sampler":
            return LinearBandit.changing_sets(function, [1.0, 0.0], Gaussian(), arm_norm=2.0)
        return LinearBandit.resampled(function, Gaussian(), mean_bound=2.0)

    class Unhashable:
        __hash__ = None

        def __call__(self, key, *pull):
            return jnp.ones((2, 2))

    for wrong, message in (
        (
            lambda key, *pull: np.asarray(jax.random.normal(key, (2, 2))),
            "must use jax.numpy .jnp., not NumPy or Python",
        ),
        (lambda key, *pull: np.sqrt(jax.random.uniform(key, (2, 2))), "must use .*jnp.asarray for np.asarray"),
        (lambda key, *pull: jnp.ones((2, 2)) * float(jax.random.normal(key)), "must use jax.numpy .jnp., not NumPy"),
        (raising, "fails: RuntimeError: no data$"),
        (lambda: jnp.ones((2, 2)), "fails: TypeError: .*positional argument"),
        (Unhashable(), "must be a traceable function of a key, got <"),
    ):
        with pytest.raises(ValueError, match=f"^{field} {message}") as caught:
            build(wrong)
        assert "\n" not in str(caught.value)


def test_wrong_samplers_are_refused():
    theta, law = [1.0, 0.0, 0.0], Gaussian()
    with pytest.raises(ValueError, match="sampler must be a traceable function of a key, got 3"):
        LinearBandit.changing_sets(3, theta, law, arm_norm=1.0)
    with pytest.raises(ValueError, match=r"\[K, d\] with K >= 1 and d = 2, got .*5,3\]|\(5, 3\)"):
        LinearBandit.changing_sets(sphere, [1.0, 0.0], law, arm_norm=1.0)
    with pytest.raises(ValueError, match=r"sampler must return arms .* got"):
        LinearBandit.changing_sets(lambda key, t: jnp.zeros(5), theta, law, arm_norm=1.0)
    with pytest.raises(ValueError, match=r"sampler must return arms .* got"):
        LinearBandit.changing_sets(lambda key, t: (jnp.zeros((5, 3)), 1), theta, law, arm_norm=1.0)
    for wrong in (-1.0, math.nan, math.inf, None):
        with pytest.raises(ValueError, match="arm_norm must"):
            LinearBandit.changing_sets(sphere, theta, law, arm_norm=wrong)
    with pytest.raises(ValueError, match="0 <= mean_bound < inf, got -2"):
        LinearBandit.changing_sets(sphere, theta, law, arm_norm=1.0, mean_bound=-2)
    with pytest.raises(ValueError, match="theta_norm must be at least 1"):
        LinearBandit.changing_sets(sphere, theta, law, arm_norm=1.0, theta_norm=0.5)


# A fresh instance in every replication --------------------------------------------------------------------------------


def cube(key):
    """Four arms in the unit square, best mean 2."""
    arms = jax.random.uniform(key, (4, 2))
    return arms, 2.0 * jnp.ones(2) / jnp.max(arms.sum(1))


def test_resampled_instances():
    law = Pareto(2.0)
    bandit = LinearBandit.resampled(cube, law, epsilon=0.5, best_mean=2.0)
    assert bandit.resampling
    assert not bandit.changing
    assert (bandit.num_arms, bandit.dim) == (4, 2)
    assert bandit.arms is bandit.theta_star is bandit.means is bandit.sampler is None
    assert bandit.generator is cube
    assert bandit.theta_norm == bandit.arm_norm == math.inf
    assert bandit.mean_bound == bandit.best_mean == 2.0
    assert bandit.raw_moment_bound == pytest.approx(law.raw_moment(1.5, 2.0), rel=1e-14)
    assert bandit.central_moment_bound == pytest.approx(law.central_moment(1.5, 2.0), rel=1e-14)
    assert pickle.loads(pickle.dumps(bandit)) == bandit
    arms, theta = bandit.generator(jax.random.key(1))
    assert float(jnp.max(arms @ theta)) == pytest.approx(2.0)


def test_resampled_instances_with_other_facts():
    bandit = LinearBandit.resampled(cube, StudentT(3.0), mean_bound=4.0, theta_norm=5.0, arm_norm=2.0)
    assert (bandit.raw_moment_bound, bandit.mean_bound, bandit.theta_norm, bandit.arm_norm) == (19.0, 4.0, 5.0, 2.0)
    assert bandit.best_mean is None
    bandit = LinearBandit.resampled(cube, StudentT(3.0), raw_moment_bound=9.0, central_moment_bound=3.0)
    assert (bandit.raw_moment_bound, bandit.central_moment_bound, bandit.mean_bound) == (9.0, 3.0, math.inf)
    assert bandit.noise_std == math.inf  # nothing is known of the means
    flipped = lambda key: (cube(key)[0] + 1.0, -jnp.ones(2) / jnp.min(cube(key)[0].sum(1) + 2.0))  # noqa: E731
    bandit = LinearBandit.resampled(flipped, StudentT(3.0), best_mean=-1.0, mean_bound=4.0)
    assert (bandit.raw_moment_bound, bandit.best_mean) == (19.0, -1.0)


def test_generators_are_held_against_what_is_declared():
    def refused(message, generator=cube, law=T3, **bounds):
        with pytest.raises(ValueError, match=message):
            LinearBandit.resampled(generator, law, **{"best_mean": 2.0, **bounds})

    where = r"in a sample of 16 instances, got"
    refused(rf"arm_norm must be at least 1\.\d+, the largest {where} 0\.5", arm_norm=0.5)
    refused(rf"theta_norm must be at least \d\.\d+, the largest {where} 1\.0", theta_norm=1.0)
    refused(rf"best_mean must be the same in all instances, (2\.0|1\.9)\d* {where} 3\.0", best_mean=3.0)
    refused(rf"mean_bound must be at least (2\.0|1\.9)\d*, the largest {where} 1\.5", best_mean=None, mean_bound=1.5)
    refused(rf"raw_moment_bound must be at least (7\.0|6\.9)\d*, the largest {where} 5\.0", raw_moment_bound=5.0)
    refused(rf"central_moment_bound must be at least 3\.0, the largest {where} 1\.0", central_moment_bound=1.0)
    negative = lambda key: (cube(key)[0] * jnp.array([1.0, -1.0]), jnp.ones(2))  # noqa: E731
    refused(
        r"generator must keep means within 0 <= mean <= inf, as Pareto\(3\) needs it, got -",
        *(negative, Pareto(3.0)),
        best_mean=None,
        mean_bound=2.0,
    )
    infinite = lambda key: (cube(key)[0], jnp.full(2, jnp.inf))  # noqa: E731
    refused("generator must return finite numbers, got others in a sample of 16 instances", infinite)
    refused("generator must return .*complex", lambda key: (cube(key)[0] + 0j, jnp.ones(2)))


def test_wrong_generators_are_refused():
    law = Gaussian()
    with pytest.raises(ValueError, match="generator must be a traceable function of a key, got None"):
        LinearBandit.resampled(None, law, best_mean=1.0)
    for wrong in (
        lambda key: jnp.zeros((4, 2)),
        lambda key: (jnp.zeros(4), jnp.zeros(4)),
        lambda key: (jnp.zeros((4, 2)), jnp.zeros((2, 1))),
        lambda key: (jnp.zeros((4, 2)), jnp.zeros(3)),
        lambda key: (jnp.zeros((0, 2)), jnp.zeros(2)),
        lambda key: {"arms": jnp.zeros((4, 2))},
    ):
        with pytest.raises(ValueError, match="generator must return"):
            LinearBandit.resampled(wrong, law, best_mean=1.0)
    with pytest.raises(ValueError, match="best_mean or mean_bound must be given"):
        LinearBandit.resampled(cube, law)
    with pytest.raises(ValueError, match="best_mean or mean_bound must be given"):
        LinearBandit.resampled(cube, law, raw_moment_bound=1.0)
    with pytest.raises(ValueError, match=r"mean_bound must be at least best_mean = 2\.0, got 1\.0"):
        LinearBandit.resampled(cube, law, best_mean=2.0, mean_bound=1.0)
    with pytest.raises(ValueError, match="best_mean must be finite, got nan"):
        LinearBandit.resampled(cube, law, best_mean=math.nan)
    with pytest.raises(ValueError, match=r"0 <= mean <= inf, got -1\.0"):
        LinearBandit.resampled(cube, Pareto(3.0), best_mean=-1.0)


# Logged sets

CONTEXTS = np.random.default_rng(5).uniform(0.1, 1.0, size=(7, 4, 3))
WEIGHTS = np.array([0.5, 0.2, 0.9])


def test_logged_contexts_are_played_in_their_order_again_and_again():
    bandit = LinearBandit.from_contexts(CONTEXTS, WEIGHTS, Pareto(1.8), epsilon=0.5)
    means = CONTEXTS @ WEIGHTS
    assert (bandit.num_arms, bandit.dim, bandit.changing) == (4, 3, True)
    assert bandit.arm_norm == np.linalg.norm(CONTEXTS, axis=2).max()
    assert bandit.mean_bound == means.max()
    assert bandit.raw_moment_bound == pytest.approx(Pareto(1.8).raw_moment(1.5, means.max()), rel=1e-12)
    sure = LinearBandit.from_contexts(CONTEXTS / 4, WEIGHTS, TwoPoint(1.0), epsilon=0.5)
    assert sure.noise_std == pytest.approx(TwoPoint(1.0).std(min(0.5, means.max() / 4)), rel=1e-12)
    policy, params = lb.make_policy("oful", bandit, horizon=30, noise_scale=1.0)
    result = lb.simulate(
        policy, params, bandit, horizon=30, num_seeds=3, num_records=30, key=jax.random.key(0), trace=True
    )
    played = means[np.arange(30) % 7]
    gaps = played.max(axis=1) - np.take_along_axis(played[None], result.trace.arms[..., None], axis=2)[..., 0]
    np.testing.assert_allclose(result.regret, np.cumsum(gaps, axis=1), rtol=1e-5, atol=1e-6)
    again = LinearBandit.from_contexts(CONTEXTS.copy(), WEIGHTS, Pareto(1.8), epsilon=0.5)
    assert again == bandit
    assert hash(again) == hash(bandit)
    assert LinearBandit.from_contexts(CONTEXTS + 0.1, WEIGHTS, Pareto(1.8), epsilon=0.5) != bandit


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_mean_that_is_zero_up_to_rounding_is_no_fault_of_a_seed(dtype):
    # Orthogonal to theta* in exact arithmetic: in float64 means of 0 or a little more, in float32 of either sign.
    sets = np.stack([[[0.8 * a, -0.6 * a], [0.5, 0.5]] for a in np.linspace(0.08, 1.4, 100)])
    sets = sets[np.all(sets @ [0.6, 0.8] >= 0, axis=1)]
    assert len(sets) > 50
    bandit = LinearBandit.from_contexts(sets, [0.6, 0.8], Pareto(3.0))
    policy, params = lb.make_policy("uniform", bandit, horizon=100)
    result = lb.simulate(policy, params, bandit, horizon=100, num_seeds=4, key=jax.random.key(0), dtype=dtype)
    assert not result.health.any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"contexts": np.ma.array(CONTEXTS, mask=CONTEXTS > 0.9)}, "contexts must be a 3-D array of real numbers"),
        ({"contexts": CONTEXTS[0]}, "contexts must be a 3-D array"),
        ({"contexts": np.full((2, 2, 3), np.inf)}, "contexts must be finite"),
        (
            {"contexts": [CONTEXTS[0].tolist(), CONTEXTS[1, :2].tolist()]},
            "every set with as many arms, got .{57}\\.\\.\\.$",
        ),
        ({"theta_star": [1.0, 2.0]}, "theta_star must have length 3"),
        ({"contexts": -CONTEXTS}, "means must be finite with 0 <= mean"),
        ({"arm_norm": 0.1}, "arm_norm must be at least"),
        ({"raw_moment_bound": 1.0}, "raw_moment_bound must be at least"),
        ({"central_moment_bound": 1e-3}, "central_moment_bound must be at least"),
        ({"epsilon": 0.9}, "epsilon"),
    ],
)
def test_contexts_that_make_no_bandit_are_refused(change, message):
    known = {"contexts": CONTEXTS, "theta_star": WEIGHTS, "noise": Pareto(1.8), "epsilon": 0.5, **change}
    with pytest.raises(ValueError, match=message):
        LinearBandit.from_contexts(**known)
