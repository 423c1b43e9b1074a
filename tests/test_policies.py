"""One suite over the registry: the protocol, its errors, its traces, and what every policy must do on odd bandits."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from traces import compiled_quickly

import linbet_jax as lb
from linbet_jax import theory
from linbet_jax.kernels.selection import squared_widths
from linbet_jax.policies import FixedSet, designs, tofu

# Many small programs, each run once; replays of the defaults and the simulator's tests optimise fully.
quick_compiles = pytest.fixture(autouse=True, scope="module")(compiled_quickly)

EVERY = [
    ("menu", {}),
    ("tofu", {}),
    ("tofu", {"level": "box", "two_sided": False}),
    ("tofu", {"root": "cholesky"}),
    ("tofu", {"method": "full"}),
    ("tofu", {"method": "full", "root": "cholesky"}),
    ("tofu", {"epochs": 5}),
    ("mom", {}),
    ("mom", {"radius": "paper"}),
    ("crt", {}),
    ("crt", {"radius": "paper"}),
    ("crt", {"scaled": True}),
    ("oful", {}),
    ("hvt_ucb", {}),
    ("crtm", {}),
    ("crmm", {}),
    ("heavy_oful", {}),
    ("gopt_elim", {}),
    ("sup_bmm", {}),
    ("sup_btc", {}),
    ("robust_ucb", {}),
    ("adar_ucb", {}),
    ("lints", {}),
    ("explore_then_commit", {"delta": 0.9}),
    ("mean_of_medians", {}),
    ("mean_of_medians", {"base": "tofu", "blocks": 2}),
    ("sgd", {}),
    ("sgd", {"loss": "huber", "explore": "width"}),
    ("uniform", {}),
    ("greedy", {}),
]
IDS = [" ".join([name, *map(str, options.values())]) for name, options in EVERY]
ORTHONORMAL = ("robust_ucb", "adar_ucb")  # sets that they play
NEEDS = {"explore_then_commit": {"delta": 0.9}}  # for short horizons
HORIZON = 340  # MENU's smallest at delta = .1 is 336


def bandit_of(num_arms=6, dim=3, noise=None, seed=0, **known):
    rng = np.random.default_rng(seed)
    return lb.LinearBandit(
        arms=rng.uniform(size=(num_arms, dim)),
        theta_star=rng.uniform(size=dim),
        noise=noise or lb.noise.StudentT(3.0),
        **known,
    )


def bandit_for(name, num_arms=6, dim=3):
    """`bandit_of`, or a bandit of arms that the policy plays."""
    if name not in ORTHONORMAL:
        return bandit_of(num_arms, dim)
    arms = np.eye(min(num_arms, dim), dim)
    return lb.LinearBandit(arms, np.arange(1.0, dim + 1.0), lb.noise.StudentT(3.0))


def cast(params, dtype=jnp.float64):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), params)


def run(name, bandit, horizon=HORIZON, num_seeds=2, trace=True, dtype="float64", key=0, scale=1.0, **options):
    options = {**NEEDS.get(name, {}), **options}
    policy, params = lb.make_policy(name, bandit, horizon=horizon, radius_scale=scale, **options)
    return lb.simulate(
        policy,
        params,
        bandit,
        horizon=horizon,
        num_seeds=num_seeds,
        key=jax.random.key(key),
        trace=trace,
        dtype=dtype,
        block_size=num_seeds,  # no padding: the suite spends its time on what it checks
    )


# The protocol


@pytest.mark.parametrize(("name", "options"), EVERY, ids=IDS)
def test_update_keeps_shapes_and_dtypes_and_batches_change_nothing(name, options):
    bandit = bandit_for(name)
    policy, params = lb.make_policy(name, bandit, horizon=HORIZON, **options)
    params, arms = cast(params), jnp.asarray(bandit.arms)
    state = policy.init(arms, params)
    key = jax.random.key(0)
    payoffs = jnp.asarray(np.random.default_rng(0).standard_t(3, size=policy.pulls_per_epoch))
    index = policy.select(key, state, arms, params)
    assert index.shape == ()
    assert index.dtype == jnp.int32

    def turn(state, index):  # every function that updates in turn, once
        for update in policy.updates:
            state = update(state, arms, index, payoffs, params)
        return state

    # No function of a policy makes a NaN on its way (P18): one operation after the other, and of options the result.
    with jax.debug_nans(True):
        after = (jax.jit(turn) if options else turn)(state, 2)
    chex.assert_trees_all_equal_shapes_and_dtypes(after, state)
    batched = jax.jit(jax.vmap(turn, in_axes=(None, 0)))(state, jnp.arange(1, 3))
    chex.assert_trees_all_close(jax.tree.map(lambda a: a[1], batched), after, rtol=1e-11, atol=1e-13)
    if policy.refresh is not None:
        fresh = policy.refresh(after, arms, params)
        chex.assert_trees_all_close(fresh, after, rtol=1e-9, atol=1e-11)
    if policy.region is not None:
        assert policy.region(after, arms, params).center.shape == (3,)


@pytest.mark.parametrize(("name", "options"), EVERY, ids=IDS)
def test_making_a_policy_again_gives_an_equal_one(name, options):
    other = bandit_for(name) if name in ORTHONORMAL else bandit_of(seed=1)
    first, params = lb.make_policy(name, bandit_for(name), horizon=HORIZON, **options)
    second, _ = lb.make_policy(name, other, horizon=HORIZON, radius_scale=0.1, ridge=2.0, **options)
    assert first == second
    assert hash(first) == hash(second)
    assert all(isinstance(leaf, float) for leaf in params)


@pytest.mark.parametrize("name", ["tofu", "crt", "oful", "greedy"])
def test_the_fixed_set_form_plays_the_general_form_s_arms(name):
    bandit = bandit_of(num_arms=9, dim=4)
    fast = run(name, bandit, scale=0.05) if name != "greedy" else run_plain(name, bandit)
    arms = jnp.asarray(bandit.arms)
    always_the_same = lb.LinearBandit.changing_sets(
        lambda key, t: arms,
        bandit.theta_star,
        bandit.noise,
        arm_norm=bandit.arm_norm,
        mean_bound=bandit.mean_bound,
        raw_moment_bound=bandit.raw_moment_bound,
        central_moment_bound=bandit.central_moment_bound,
    )
    slow = run(name, always_the_same, scale=0.05) if name != "greedy" else run_plain(name, always_the_same)
    np.testing.assert_array_equal(fast.trace.arms, slow.trace.arms)
    np.testing.assert_allclose(fast.final_estimate, slow.final_estimate, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fast.regret, slow.regret, rtol=1e-12, atol=1e-12)


def run_plain(name, bandit):
    policy, params = lb.make_policy(name, bandit, horizon=HORIZON)
    return lb.simulate(
        policy, params, bandit, horizon=HORIZON, num_seeds=2, key=jax.random.key(0), trace=True, dtype="float64"
    )


@pytest.mark.parametrize("name", ["menu", "tofu", "mom", "crt", "oful", "hvt_ucb", "crtm", "crmm", "heavy_oful"])
def test_doubling_the_scale_doubles_the_optimistic_term(name, monkeypatch):  # P4
    bandit = bandit_of()
    seen = []

    def keep(values, squared, radius):
        seen.append((np.asarray(values), np.asarray(radius * jnp.sqrt(squared))))
        return jnp.argmax(values + radius * jnp.sqrt(squared)).astype(jnp.int32)

    monkeypatch.setattr(designs, "argmax_index", keep)
    policy, params = lb.make_policy(name, bandit, horizon=HORIZON, radius_scale=0.3)
    params, arms = cast(params), jnp.asarray(bandit.arms)
    state = policy.init(arms, params)
    for _ in range(3):
        for scale in (1, 2):
            policy.select(jax.random.key(0), state, arms, params._replace(radius_scale=scale * params.radius_scale))
        (values, once), (same, twice) = seen[-2:]
        np.testing.assert_array_equal(values, same)
        np.testing.assert_allclose(twice, 2 * once, rtol=1e-14)
        assert np.all(once > 0)
        state = policy.updates[0](state, arms, 1, jnp.linspace(-1, 9, policy.pulls_per_epoch), params)


def test_the_first_payoff_is_not_thrown_away():  # P15
    bandit = bandit_of(2, 1, lb.noise.StudentT(1.9), epsilon=0.5)
    policy, params = lb.make_policy("tofu", bandit, horizon=10_000, raw_moment_bound=1.0)
    params = cast(params)
    arms = jnp.ones((2, 1))
    after = policy.updates[0](policy.init(arms, params), arms, 1, jnp.array([0.1]), params)
    np.testing.assert_allclose(policy.region(after, arms, params).center, 0.05, rtol=1e-12)  # y x / (lambda + x^2)


# TOFU's forms

LAWS = {
    "S3": lambda: lb.dataset("S3"),
    "t, eps=.5": lambda: bandit_of(20, 10, lb.noise.StudentT(1.8), epsilon=0.5),
    "lower bound": lambda: lb.datasets.lower_bound(6, 0.5, 1000),
}


@pytest.mark.parametrize(
    ("law", "scale", "horizon"),
    [
        ("S3", 1.0, 1000),
        ("S3", 0.02, 1000),
        ("t, eps=.5", 0.02, 900),
        ("lower bound", 1.0, 1000),
    ],
)
def test_pruned_and_full_tofu_play_identical_arms_over_many_pulls(law, scale, horizon):
    bandit = LAWS[law]()
    pruned = run("tofu", bandit, horizon=horizon, num_seeds=1, scale=scale)
    full = run("tofu", bandit, horizon=horizon, num_seeds=1, scale=scale, method="full")
    np.testing.assert_array_equal(pruned.trace.arms, full.trace.arms)
    np.testing.assert_allclose(pruned.final_estimate, full.final_estimate, rtol=1e-8, atol=1e-10)


def test_as_many_epochs_as_pulls_is_tofu_itself():
    bandit = bandit_of(8, 3, lb.noise.StudentT(1.8), epsilon=0.5)
    every = run("tofu", bandit, horizon=200, epochs=200, scale=0.1)
    tofu_itself = run("tofu", bandit, horizon=200, scale=0.1)
    once = run("tofu", bandit, horizon=200, epochs=1, scale=0.1)
    np.testing.assert_array_equal(every.trace.arms, tofu_itself.trace.arms)
    np.testing.assert_allclose(every.final_estimate, tofu_itself.final_estimate, rtol=1e-9)
    assert np.any(once.trace.arms != tofu_itself.trace.arms)


def test_a_spectrum_beyond_the_rational_root_is_repeated_with_a_wider_one():
    bandit = bandit_of(5, 2, lb.noise.StudentT(1.8), epsilon=0.5)
    narrow = tofu(FixedSet(2), condition=100.0)
    _, params = lb.make_policy("tofu", bandit, horizon=600)
    known = {
        "horizon": 600,
        "num_seeds": 2,
        "block_size": 2,
        "key": jax.random.key(0),
        "trace": True,
        "dtype": "float64",
    }
    widened = lb.simulate(narrow, params, bandit, **known)
    assert widened.reruns == 2
    full = run("tofu", bandit, horizon=600, num_seeds=2, method="full")
    np.testing.assert_array_equal(widened.trace.arms, full.trace.arms)


# Scale equivariance


@pytest.mark.parametrize(
    ("name", "options", "equivariant"),
    [
        ("menu", {}, True),
        ("mom", {}, True),
        ("tofu", {}, True),
        ("crt", {"scaled": True}, True),
        ("oful", {}, True),
        ("tofu", {"level": "box"}, False),
        ("crt", {}, False),
    ],
)
def test_the_unit_of_the_payoffs(name, options, equivariant):
    unit, horizon = 8.0, 1000
    rng = np.random.default_rng(5)
    arms, theta = rng.uniform(size=(12, 4)), rng.uniform(size=4)
    law = lambda scale: lb.noise.StudentT(1.9, scale)  # noqa: E731
    one = lb.LinearBandit(arms, theta, law(1.0), epsilon=0.5)
    other = lb.LinearBandit(arms, unit * theta, law(unit), epsilon=0.5)
    choices = ({"noise_scale": 1.5}, {"noise_scale": 1.5 * unit}) if name == "oful" else (options, options)
    first = run(name, one, horizon=horizon, scale=0.02, **choices[0])
    second = run(name, other, horizon=horizon, scale=0.02, **choices[1])
    same = np.array_equal(first.trace.arms, second.trace.arms)
    assert same == equivariant
    if equivariant:
        np.testing.assert_allclose(second.regret, unit * first.regret, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(other.raw_moment_bound, unit**1.5 * one.raw_moment_bound, rtol=1e-9)


# Odd bandits


@pytest.mark.parametrize(
    ("shape", "name", "options"),
    [
        ((1, 1), name, options)
        for name, options in EVERY
        if not options or options in ({"method": "full"}, {"epochs": 5})
    ],
)  # fewer arms than dimensions: below
def test_odd_shapes_run(shape, name, options):  # P5, P9
    bandit = bandit_for(name, *shape)
    result = run(name, bandit, **options)
    assert not result.health.any()
    assert result.trace.arms.shape == (2, HORIZON)
    assert np.all(np.diff(result.regret, axis=1) >= 0)
    if shape[0] == 1:
        assert np.all(result.regret == 0)
    if result.final_estimate is not None:
        assert result.final_estimate.shape == (2, shape[1])


@pytest.mark.parametrize("name", [name for name, options in EVERY if not options and name not in ORTHONORMAL])
def test_zero_arms(name):  # P10
    arms = np.zeros((6, 3))  # the shapes of other tests, whose programs serve here
    nothing = lb.LinearBandit(arms, np.ones(3), lb.noise.StudentT(3.0))
    assert np.all(np.asarray(squared_widths(jnp.asarray(arms), jnp.eye(3))) == 0)
    result = run(name, nothing)
    assert np.all(result.regret == 0)
    assert not result.health.any()
    arms[1:] = np.random.default_rng(0).uniform(size=(5, 3))
    result = run(name, lb.LinearBandit(arms, np.ones(3), lb.noise.StudentT(3.0)))
    assert not result.health.any()
    assert np.all(np.isfinite(result.regret))


@pytest.mark.parametrize("name", lb.policies.names())
def test_zero_arms_under_a_law_that_scales_with_the_mean(name):
    # P10: b = c = 0; and P7: fewer arms than dimensions, in a process that knows float32 alone
    options = {"assume_symmetric": True} if name in ("crmm", "mean_of_medians") else {}
    shape, law = ((3, 3) if name in ORTHONORMAL else (3, 7)), lb.noise.Pareto(2.0)
    arms = np.eye(3) if name in ORTHONORMAL else np.random.default_rng(0).uniform(size=shape)
    with jax.enable_x64(False):
        some = run(name, lb.LinearBandit(arms, np.ones(shape[1]), law, epsilon=0.5), dtype="float32", **options)
    assert_dtypes(some, "float32")
    assert not some.health.any()
    assert np.all(np.diff(some.regret, axis=1) >= 0)
    means = (arms, np.zeros(shape[1])) if name in ORTHONORMAL else (np.zeros(shape), np.ones(shape[1]))
    nothing = lb.LinearBandit(*means, law, epsilon=0.5)
    if name in ("hvt_ucb", "heavy_oful"):  # they would clip every payoff to their estimate
        with pytest.raises(ValueError, match=rf"central_moment_bound=0.0: must be positive for {name}"):
            run(name, nothing)
        return
    with jax.enable_x64(False):
        result = run(name, nothing, dtype="float32", **options)
    assert np.all(result.regret == 0)
    assert np.all(result.payoff == 0)
    assert not result.health.any()


def test_a_spectrum_that_no_root_covers_is_refused_and_names_the_ridge():
    bandit = lb.LinearBandit(np.eye(3) * 3e6, np.ones(3) / 3e6, lb.noise.StudentT(3.0))
    with pytest.raises(ValueError, match=r"ridge=1.0: with arm_norm=3e\+06 and horizon=300"):
        lb.make_policy("tofu", bandit, horizon=300)
    assert not run("tofu", bandit, root="cholesky").health.any()
    policy, params = lb.make_policy("tofu", bandit_of(), horizon=20)
    with pytest.warns(RuntimeWarning, match="tofu: 1 of 1 replications met something non-finite"):
        result = lb.simulate(
            policy, params._replace(ridge=1e-13), bandit_of(), horizon=20, num_seeds=1, key=jax.random.key(0),
            dtype="float64", block_size=1,
        )  # fmt: skip
    assert result.health[0] > 0


def test_d_1_is_the_scalar_formula():  # P5
    arms = np.array([[1.0], [0.5]])
    bandit = lb.LinearBandit(arms, np.array([2.0]), lb.noise.StudentT(3.0))
    result = run("oful", bandit, num_seeds=1)
    total, square = 0.0, 1.0
    for arm, payoff in zip(result.trace.arms[0], result.trace.payoffs[0], strict=True):
        total, square = total + arms[arm, 0] * payoff, square + arms[arm, 0] ** 2
    np.testing.assert_allclose(result.final_estimate[0, 0], total / square, rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "x64", "dtype"),
    [(name, True, "float64") for name in lb.policies.names()]  # and float32 alone: above
    + [(name, True, "float32") for name in ("menu", "tofu", "oful", "gopt_elim")]  # the others are built like these
    + [("oful", False, "float64")],
)
def test_every_dtype_runs_or_is_refused(name, x64, dtype):  # P7
    bandit = bandit_for(name)
    least = {"menu": 336, "mom": 24, "sup_bmm": 24, "bmm_ucb": 24, "explore_then_commit": 60}
    horizon = HORIZON if dtype == "float64" else least.get(name, 8)
    with jax.enable_x64(x64):
        if dtype == "float64" and not x64:
            with pytest.raises(ValueError, match=r"dtype='float64': needs jax.config.update"):
                run(name, bandit, horizon=horizon, dtype=dtype)
            return
        result = run(name, bandit, horizon=horizon, dtype=dtype)
    assert_dtypes(result, dtype)
    assert not result.health.any()


def assert_dtypes(result, dtype):
    assert result.dtype == dtype == result.regret.dtype.name == result.payoff.dtype.name
    assert result.trace.payoffs.dtype.name == dtype
    assert result.final_estimate is None or result.final_estimate.dtype.name == dtype


def test_nan_debugging_of_a_whole_simulation_is_silent():  # P18; of the functions of each policy: above
    with jax.debug_nans(True):
        run("oful", bandit_of())


# MENU's and MoM's epochs


def test_menu_plays_exactly_t_pulls():  # P12
    bandit = lb.dataset("S1")
    policy, params = lb.make_policy("menu", bandit, horizon=20_000, delta=0.01)
    assert dict(policy.about.facts) == {"k": 373, "N": 53}
    result = lb.simulate(
        policy, params, bandit, horizon=20_000, num_seeds=1, key=jax.random.key(0), trace=True, dtype="float64"
    )
    arms = result.trace.arms[0]
    assert arms.size == 20_000
    epochs = arms[: 373 * 53].reshape(53, 373)
    assert np.all(epochs == epochs[:, :1])
    assert 20_000 - 373 * 53 == 231
    assert np.all(arms[373 * 53 :] == arms[-1])  # the last 231 pulls play the final region's arm
    # and update nothing: the estimate is that of 53 epochs
    shorter = lb.simulate(policy, params, bandit, horizon=373 * 53, num_seeds=1, key=jax.random.key(0), dtype="float64")
    np.testing.assert_allclose(result.final_estimate, shorter.final_estimate, rtol=1e-12)


def test_k_uses_eulers_number_and_not_epsilon():  # P13
    law = lb.noise.StudentT(3.0)
    half, one = bandit_of(noise=law, epsilon=0.5), bandit_of(noise=law, epsilon=1.0)
    counts = [dict(lb.make_policy("menu", b, horizon=20_000)[0].about.facts)["k"] for b in (half, one)]
    assert counts == [317, 317]


def test_menu_too_short_names_the_smallest_horizon():  # P11
    with pytest.raises(ValueError, match=r"horizon=100: MENU at delta=0.01 needs T >= 391"):
        lb.make_policy("menu", bandit_of(), horizon=100, delta=0.01)
    policy, _ = lb.make_policy("menu", bandit_of(), horizon=391, delta=0.01)
    assert policy.pulls_per_epoch == theory.menu_groups(391, 0.01) <= 391


def test_mom_says_when_it_plays_fewer_epochs():
    policy, params = lb.make_policy("mom", bandit_of(), horizon=200)
    assert "fewer and longer" in policy.about.notes[0]
    result = lb.simulate(policy, params, bandit_of(), horizon=200, num_seeds=1, key=jax.random.key(0))
    assert result.notes == policy.about.notes
    assert lb.make_policy("mom", bandit_of(), horizon=20_000)[0].about.notes == ()


def test_oful_says_when_the_noise_has_no_deviation():
    policy, params = lb.make_policy("oful", lb.dataset("S3"), horizon=100)
    assert params.noise_scale == 1.0
    assert "no finite standard deviation" in policy.about.notes[0]
    _, params = lb.make_policy("oful", bandit_of(noise=lb.noise.StudentT(3.0, 2.0)), horizon=100)
    assert params.noise_scale == pytest.approx(2 * np.sqrt(3))


# Wrong input


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("ridge", value) for value in (0, -1, float("nan"), float("inf"), "1", True)),
        *(("delta", value) for value in (0, 1, -0.1, float("nan"))),
        *(("radius_scale", value) for value in (-1, float("nan"), float("inf"))),
        *(("horizon", value) for value in (0, -3, 2.5, float("nan"), True, None)),
        *(("epsilon", value) for value in (0, 1.5, -1, float("nan"))),
        *(("raw_moment_bound", value) for value in (-1, float("inf"), 10**400)),
        *(("theta_norm", value) for value in (-1, float("nan"), float("inf"))),
        ("capacity", 0),
        ("epochs", 0),
        ("epochs", 10_000),
        ("level", "prof"),
        ("method", "fast"),
        ("root", "lu"),
        ("two_sided", "yes"),
    ],
)
def test_wrong_numbers_name_field_and_value(field, value):  # P2
    known = {"horizon": 1000, field: value}
    shown = "(1000|10000)" if value == 10_000 else str(value).replace("None", "None")
    with pytest.raises(ValueError, match=rf"{field}=.?{shown}.?.*(must be|allowed are)"):
        lb.make_policy("tofu", bandit_of(), **known)


@pytest.mark.parametrize("name", lb.policies.names())
@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("ridge", 0), ("delta", 1), ("radius_scale", -1), ("horizon", 0), ("epsilon", 1.5), ("noise_scale", -1)),
        *(("raw_moment_bound", -1), ("central_moment_bound", -1), ("theta_norm", -1)),
    ],
)
def test_every_policy_refuses_wrong_numbers(name, field, value):  # P2
    if field in ("ridge", "delta", "radius_scale", "horizon") or field in lb.policies.options(name):
        message = rf"{field}={value}: must be"
    else:
        message = rf"option {field}={value}: {name} knows"
    with pytest.raises(ValueError, match=message):
        lb.make_policy(name, bandit_of(), **{"horizon": 1000, field: value})


def test_unknown_names_list_the_known_ones():
    with pytest.raises(
        ValueError,
        match=r"policy 'tof' \(did you mean tofu\?\): known are menu, tofu, mom, crt, oful, hvt_ucb, crtm, "
        r"crmm, heavy_oful, gopt_elim, ",
    ):
        lb.make_policy("tof", bandit_of(), horizon=100)
    with pytest.raises(ValueError, match=r"option levle='proof' \(did you mean level\?\): tofu knows level, two_sided"):
        lb.make_policy("tofu", bandit_of(), horizon=100, levle="proof")
    with pytest.raises(ValueError, match=r"option level='box': crt knows radius, scaled"):
        lb.make_policy("crt", bandit_of(), horizon=100, level="box")
    with pytest.raises(ValueError, match=r"option radius_scal=0.1 \(did you mean radius_scale\?\): crt knows"):
        lb.make_policy("crt", bandit_of(), horizon=100, radius_scal=0.1)
    with pytest.raises(
        ValueError, match=r"bandit='S3': must be a linbet_jax.LinearBandit, dataset\('S3'\) for example"
    ):
        lb.make_policy("crt", "S3", horizon=100)


def test_a_number_may_be_an_array_without_axes():
    policy, params = lb.make_policy("oful", bandit_of(), horizon=100, radius_scale=jnp.float32(0.5), ridge=np.array(2))
    assert (params.radius_scale, params.ridge) == (0.5, 2.0)
    policy.about.check(params._replace(radius_scale=jnp.logspace(-1, 0, 3)[0]))
    with pytest.raises(ValueError, match="delta=.*: must be in"):
        lb.make_policy("oful", bandit_of(), horizon=100, delta=jnp.asarray(1.0))
    with pytest.raises(ValueError, match="ridge=.*: must be a number"):
        lb.make_policy("oful", bandit_of(), horizon=100, ridge=jnp.ones(2))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("tofu", {"method": "full", "epochs": 3}, "epochs=3: goes with method='pruned' alone"),
        ("crt", {"radius": "paper", "scaled": True}, "scaled=True: goes with radius='valid' alone"),
        ("crt", {"radius": "papr"}, "radius='papr': allowed are 'valid' and 'paper'"),
        ("mom", {"radius": "papr"}, "radius='papr': allowed are 'valid' and 'paper'"),
        ("mom", {"horizon": 10}, "horizon=10: MoM at delta=0.1 needs at least 24 pulls"),
    ],
)
def test_options_that_exclude_each_other(name, options, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        lb.make_policy(name, bandit_of(), **{"horizon": 1000, **options})


def test_options_are_listed_with_their_defaults():
    assert lb.policies.options("tofu")["level"] == "proof"
    assert lb.policies.options("uniform") == {}
    assert set(lb.policies.options("crt")) == {"radius", "scaled", "epsilon", "raw_moment_bound", "theta_norm"}
