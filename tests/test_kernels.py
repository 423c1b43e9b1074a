"""The kernels against plain NumPy float64, one problem at a time and batched."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.test_util import check_grads
from traces import compiled_quickly

from linbet_jax import kernels
from linbet_jax.kernels import gram as gram_kernels
from linbet_jax.kernels.medians import _radius_of
from linbet_jax.kernels.selection import TIE_TOLERANCE
from linbet_jax.kernels.truncation import doubtful_update_on_cpu
from linbet_jax.kernels.whitening import num_shifts, root_quadrature

# Nearly every program runs once, and briefly.
quick_compiles = pytest.fixture(autouse=True, scope="module")(compiled_quickly)


def random_gram(rng, dim, rows=None, ridge=1.0):
    features = rng.uniform(size=(rows or 3 * dim, dim))
    return ridge * np.eye(dim) + features.T @ features


def plain_center(estimates, gram):
    """`median_center` by its definition, all k medians of all k^2 distances."""
    radii = jax.vmap(lambda index: _radius_of(index, estimates, gram))(jnp.arange(estimates.shape[0]))
    best = jnp.argmin(radii)
    return best, radii[best]


def numpy_root(gram):
    values, vectors = np.linalg.eigh(gram)
    return (vectors / np.sqrt(values)) @ vectors.T


def numpy_center(estimates, gram):
    """Algorithm 1, lines 8-9, by np.median over the others."""
    medians = []
    for j, own in enumerate(estimates):
        differences = np.delete(estimates, j, axis=0) - own
        medians.append(np.median(np.sqrt(np.einsum("id,de,ie->i", differences, gram, differences))))
    return int(np.argmin(medians)), min(medians)


def numpy_truncated(features, payoffs, gram, level, two_sided=True):
    """Algorithm 2, lines 8-12."""
    root = numpy_root(gram)
    sums = np.zeros(gram.shape[0])
    for i in range(gram.shape[0]):
        for feature, payoff in zip(features, payoffs, strict=True):
            product = root[i] @ feature * payoff
            if (abs(product) if two_sided else product) <= level:
                sums[i] += product
    return root @ sums


# Gram matrices and their roots


@pytest.mark.parametrize("dim", [1, 2, 7, 20])
def test_sweeps_factors_and_their_updates(dim):
    rng = np.random.default_rng(dim)
    gram, feature = random_gram(rng, dim), rng.normal(size=dim)
    inverse, log_det = gram_kernels.sweep_inverse(jnp.asarray(gram))
    np.testing.assert_allclose(inverse, np.linalg.inv(gram), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(log_det, np.linalg.slogdet(gram)[1], rtol=1e-12, atol=1e-12)
    stacked = jnp.stack([jnp.asarray(gram), 2 * jnp.asarray(gram)], axis=-1)
    np.testing.assert_allclose(gram_kernels.sweep_inverse(stacked)[0][..., 1], inverse / 2, rtol=1e-13, atol=1e-15)

    grown = gram + np.outer(feature, feature)
    updated, squared_width = gram_kernels.rank_one_inverse(inverse, jnp.asarray(feature))
    np.testing.assert_allclose(updated, np.linalg.inv(grown), rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(squared_width, feature @ np.linalg.inv(gram) @ feature, rtol=1e-11)

    factor = gram_kernels.cholesky(jnp.asarray(gram))
    np.testing.assert_allclose(factor, np.linalg.cholesky(gram), rtol=1e-11, atol=1e-13)
    lower = gram_kernels.lower_inverse(factor)
    np.testing.assert_allclose(lower, np.linalg.inv(np.linalg.cholesky(gram)), rtol=1e-10, atol=1e-13)
    lower = gram_kernels.rank_one_lower_inverse(lower, jnp.asarray(feature))
    np.testing.assert_allclose(lower, np.linalg.inv(np.linalg.cholesky(grown)), rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("tail", ["light", "heavy"])
def test_a_compensated_sum_keeps_its_last_digit(tail):
    rng = np.random.default_rng(3)
    terms = (1 + rng.standard_normal(200_000) if tail == "light" else rng.pareto(1.2, 200_000)).astype(np.float32)

    def add(sums, term):
        plain, total, lost = sums
        return (plain + term, *gram_kernels.compensated(total, lost, term)), None

    zero = jnp.zeros((), jnp.float32)
    (plain, total, _), _ = jax.lax.scan(add, (zero, zero, zero), jnp.asarray(terms))
    exact = float(np.sum(terms, dtype=np.float64))
    digit = float(np.spacing(np.float32(exact)))
    assert abs(float(total) - exact) <= digit
    assert abs(float(plain) - exact) > 20 * digit


def test_a_ridge_estimate_is_where_the_penalised_squares_are_least():
    """Beside optax's L-BFGS on the objective itself, which knows no V."""
    rng = np.random.default_rng(4)
    features, payoffs, ridge = jnp.asarray(rng.normal(size=(30, 3))), jnp.asarray(rng.standard_t(2.0, 30)), 0.7

    def loss(theta):
        return ridge * jnp.sum(theta**2) + jnp.sum((payoffs - features @ theta) ** 2)

    solver = optax.lbfgs()

    def step(_, carry):
        theta, state = carry
        value, gradient = optax.value_and_grad_from_state(loss)(theta, state=state)
        updates, state = solver.update(gradient, state, theta, value=value, grad=gradient, value_fn=loss)
        return optax.apply_updates(theta, updates), state

    start = jnp.zeros(3)
    found, _ = jax.lax.fori_loop(0, 40, step, (start, solver.init(start)))
    gram = ridge * jnp.eye(3) + features.T @ features
    np.testing.assert_allclose(kernels.ridge_estimates(gram, (features.T @ payoffs)[:, None])[0], found, rtol=1e-6)


def test_ridge_estimates_solve_the_normal_equations():
    rng = np.random.default_rng(0)
    gram, moments = random_gram(rng, 10), rng.standard_t(2, size=(10, 33))
    estimates = kernels.ridge_estimates(jnp.asarray(gram), jnp.asarray(moments))
    assert estimates.shape == (33, 10)
    np.testing.assert_allclose(estimates, np.linalg.solve(gram, moments).T, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "spectrum",
    [np.ones(6), 4.0 * np.ones(6), [1, 1, 1, 5, 5, 9], np.geomspace(1, 1e8, 6)],
    ids=["identity", "ridge", "repeated", "condition 1e8"],
)
def test_inverse_sqrt_is_the_symmetric_root(spectrum):  # P6
    rng = np.random.default_rng(1)
    vectors = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    spectrum = np.asarray(spectrum, float)
    gram = (vectors * spectrum) @ vectors.T
    gram = (gram + gram.T) / 2
    root = np.asarray(kernels.inverse_sqrt(jnp.asarray(gram)))
    assert root.dtype == np.float64
    np.testing.assert_allclose(root, root.T, atol=0)
    np.testing.assert_allclose(root, (vectors / np.sqrt(spectrum)) @ vectors.T, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(root @ gram @ root, np.eye(6), atol=1e-7)


def test_at_the_start_whitened_features_are_features_over_root_ridge():  # P6: u = X / sqrt(lambda) at V = lambda I
    features = np.random.default_rng(2).normal(size=(9, 4))
    root = kernels.inverse_sqrt(4.0 * jnp.eye(4))
    np.testing.assert_allclose(features @ root, features / 2, rtol=1e-15)


def test_the_estimate_does_not_depend_on_the_eigenvectors_signs():  # P6
    rng = np.random.default_rng(3)
    gram, features, payoffs = random_gram(rng, 5), rng.normal(size=(40, 5)), rng.standard_t(1.5, size=40)
    values, vectors = np.linalg.eigh(gram)
    flipped = vectors * np.array([1, -1, -1, 1, -1])
    root = (flipped / np.sqrt(values)) @ flipped.T
    products = (features @ root) * payoffs[:, None]
    expected = root @ np.where(np.abs(products) <= 0.7, products, 0).sum(axis=0)
    got = kernels.truncated_estimate(*map(jnp.asarray, (features, payoffs, gram, 0.7)))
    np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize(("dtype", "accuracy"), [(np.float64, 2e-12), (np.float32, 2e-7)])
@pytest.mark.parametrize("condition", [1e2, 1e4, 1e6, 1e8, 1e10])
def test_the_rational_root_covers_its_spectrum(condition, dtype, accuracy):
    shifts, weights = root_quadrature(condition, num_shifts(condition, dtype))
    spectrum = np.geomspace(1, condition, 5001)
    values = np.sum(weights / (spectrum[:, None] + shifts), axis=1)
    np.testing.assert_allclose(values * np.sqrt(spectrum), 1, atol=accuracy)
    assert np.all(shifts > 0)
    assert np.all(weights > 0)


@pytest.mark.parametrize("dim", [1, 3, 20])
def test_shifted_inverses_follow_the_root_through_updates(dim):
    rng = np.random.default_rng(dim)
    ridge, condition = 0.5, 1e6
    gram = ridge * np.eye(dim)
    state = kernels.shifted_inverses(jnp.asarray(gram), jnp.asarray(ridge), condition)
    step = jax.jit(lambda s, x: kernels.shifted_inverses_update(s, x, jnp.asarray(ridge), condition))
    for _ in range(600):
        feature = rng.uniform(size=dim)
        gram += np.outer(feature, feature)
        state = step(state, jnp.asarray(feature))
    np.testing.assert_allclose(state.root, numpy_root(gram), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dim", [1, 3, 20])
def test_a_deferred_update_and_its_settlement_are_two_updates(dim):
    rng = np.random.default_rng(dim)
    ridge, condition = 0.5, 1e4
    gram = ridge * np.eye(dim)
    alike = state = kernels.shifted_inverses(jnp.asarray(gram), jnp.asarray(ridge), condition)
    for pair in rng.uniform(size=(40, 2, dim)):
        for step, feature in zip((kernels.shifted_inverses_defer, kernels.shifted_inverses_settle), pair, strict=True):
            gram += np.outer(feature, feature)
            state = step(state, jnp.asarray(feature), jnp.asarray(ridge), condition)
            alike = kernels.shifted_inverses_update(alike, jnp.asarray(feature), jnp.asarray(ridge), condition)
            np.testing.assert_allclose(state.root, numpy_root(gram), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(state.inverses, alike.inverses, rtol=1e-10, atol=1e-13)
        assert not np.any(state.image)
        assert not np.any(state.scaled)


# Truncation


@pytest.mark.parametrize("two_sided", [True, False])
@pytest.mark.parametrize("level", [0.05, 0.5, 1e9])
def test_truncated_estimate_is_the_pseudocode(level, two_sided):
    rng = np.random.default_rng(4)
    features, payoffs = rng.uniform(size=(60, 4)), rng.standard_t(1.2, size=60)
    gram = np.eye(4) + features.T @ features
    got = kernels.truncated_estimate(*map(jnp.asarray, (features, payoffs, gram, level)), two_sided=two_sided)
    np.testing.assert_allclose(got, numpy_truncated(features, payoffs, gram, level, two_sided), rtol=1e-10, atol=1e-12)
    padded = np.vstack([features, rng.normal(size=(7, 4))]), np.append(payoffs, rng.normal(size=7))
    masked = kernels.truncated_estimate(
        *map(jnp.asarray, (*padded, gram, level)), mask=jnp.arange(67) < 60, two_sided=two_sided
    )
    np.testing.assert_allclose(masked, got, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("two_sided", [True, False])
@pytest.mark.parametrize("tail", [1.1, 3.0])
def test_the_pruned_form_gives_the_full_pass_s_estimate(tail, two_sided):
    rng = np.random.default_rng(5)
    dim, rounds = 3, 250
    gram = np.eye(dim)
    state = kernels.doubtful_init(dim, 200, jnp.float64)
    features, payoffs, peak, dropped = [], [], 0, 0
    for t in range(1, rounds + 1):
        feature, payoff = rng.uniform(size=dim), 1 + rng.standard_t(tail)
        features.append(feature)
        payoffs.append(payoff)
        gram += np.outer(feature, feature)
        level = 0.4 * t**0.1
        root = jnp.asarray(numpy_root(gram))
        state, sums = kernels.doubtful_update(
            state, *map(jnp.asarray, (feature, payoff)), root, level, two_sided=two_sided
        )
        got = kernels.doubtful_estimate(state, sums, jnp.asarray(np.linalg.inv(gram)), root)
        expected = numpy_truncated(np.array(features), np.array(payoffs), gram, level, two_sided)
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-11)
        peak = max(peak, int(state.live.sum()))
        dropped += bool(np.any(np.abs(expected - np.linalg.solve(gram, np.array(features).T @ payoffs)) > 1e-9))
    assert not state.overflow
    assert peak > 3  # the buffer was used
    assert int(state.live.sum()) < peak  # and payoffs were settled
    assert dropped > 20  # and truncation made a difference


def test_a_payoff_that_is_not_a_number_is_not_dropped():
    got = kernels.truncated_estimate(jnp.ones((3, 2)), jnp.array([1.0, jnp.nan, 1.0]), jnp.eye(2), 1e9)
    assert np.isnan(got).all()


def test_a_full_buffer_says_so_and_stays_said():
    state = kernels.doubtful_init(2, 2, jnp.float64)
    root, feature = jnp.eye(2), jnp.ones(2)
    for count in range(1, 4):
        state, _ = kernels.doubtful_update(state, feature, jnp.asarray(10.0), root, jnp.asarray(0.1))
        assert bool(state.overflow) == (count > 2)
    state, _ = kernels.doubtful_update(state, feature, jnp.asarray(0.0), root, jnp.asarray(1e9))
    assert bool(state.overflow)
    assert not state.live.any()


def test_tiles_without_a_payoff_need_not_be_looked_at():
    """In a batch, where one state is empty and one fills several tiles."""
    rng = np.random.default_rng(7)
    dim, seeds, rounds = 2, 3, 60
    features = rng.uniform(0.5, 1, size=(rounds, seeds, dim))
    payoffs = rng.standard_t(1.5, size=(rounds, seeds)) * [0, 1, 30]  # nothing in doubt, a little, much
    levels = np.where(np.arange(rounds) < 30, 0.1, 5.0)  # rises so far that many are settled at once, and leave gaps
    payoffs[30:] *= 1e-3
    grams = np.eye(dim) + np.cumsum(features[..., None] * features[:, :, None], axis=0)
    roots = np.array([[numpy_root(gram) for gram in row] for row in grams])
    forms = [
        jax.jit(jax.vmap(functools.partial(form, two_sided=False), in_axes=(0, 0, 0, 0, None)))
        for form in (kernels.doubtful_update, doubtful_update_on_cpu)
    ]
    start = jax.tree.map(lambda each: jnp.stack([each] * seeds), kernels.doubtful_init(dim, 40, jnp.float64))
    states, ends = [start, start], []
    for inputs in zip(features, payoffs, roots, levels, strict=True):
        (every, sums), (some, same) = (form(s, *inputs) for form, s in zip(forms, states, strict=True))
        states = [every, some]
        np.testing.assert_allclose(same, sums, rtol=1e-13, atol=1e-15)
        np.testing.assert_allclose(some.moments, every.moments, rtol=1e-13)
        live = np.asarray(some.live).reshape(seeds, -1)
        np.testing.assert_array_equal(live.sum(axis=1), np.sum(every.live, axis=(1, 2)))
        np.testing.assert_array_equal(some.end, [np.max(np.flatnonzero(row), initial=-1) + 1 for row in live])
        np.testing.assert_array_equal(some.free, np.argmin(live, axis=1))
        ends.append(np.asarray(some.end) - live.sum(axis=1))
    assert np.max(states[1].end) > 0
    assert np.max(ends) > 8  # gaps were left,
    assert np.max(ends[-1]) == 0  # and closed
    assert not np.any(states[1].overflow)


def test_a_huge_payoff_leaves_no_rounding_behind():
    rng = np.random.default_rng(6)
    features, payoffs = rng.uniform(size=(30, 3)), rng.normal(size=30)
    payoffs[3] = 1e15
    gram = np.eye(3)
    state = kernels.doubtful_init(3, 30, jnp.float64)
    for feature, payoff in zip(features, payoffs, strict=True):
        gram += np.outer(feature, feature)
        root = kernels.inverse_sqrt(jnp.asarray(gram))
        state, sums = kernels.doubtful_update(state, jnp.asarray(feature), jnp.asarray(payoff), root, jnp.asarray(2.0))
    got = kernels.doubtful_estimate(state, sums, jnp.linalg.inv(jnp.asarray(gram)), root)
    np.testing.assert_allclose(got, numpy_truncated(features, payoffs, gram, 2.0), rtol=1e-10, atol=1e-12)


# Medians


def test_the_center_of_three_numbers():  # P14
    estimates = jnp.array([[0.0], [1.0], [10.0]])
    index, radius = kernels.median_center(estimates, jnp.eye(1))
    assert (int(index), float(radius)) == (1, 5.0)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["plain", "rounded", "half equal", "outliers", "all equal", "two clusters"])
def test_median_center_is_the_pseudocode(seed, kind):
    rng = np.random.default_rng(seed)
    num, dim = int(rng.integers(2, 45)), int(rng.integers(1, 8))
    estimates = rng.standard_t(1.5, size=(num, dim))
    if kind == "rounded":
        estimates = np.round(estimates)
    elif kind == "half equal":
        estimates[: num // 2 + 1] = estimates[0]
    elif kind == "outliers":
        estimates[rng.integers(0, num, 3)] *= 1e9
    elif kind == "all equal":
        estimates[:] = estimates[0]
    elif kind == "two clusters":
        estimates[::2] += 1e6
    gram = random_gram(rng, dim)
    expected_index, expected_radius = numpy_center(estimates, gram)
    for center in (kernels.median_center, jax.jit(plain_center)) if seed < 2 else (kernels.median_center,):
        index, radius = center(jnp.asarray(estimates), jnp.asarray(gram))
        assert int(index) == expected_index
        np.testing.assert_allclose(radius, expected_radius, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("num", "dim"), [(317, 10), (318, 20)])
def test_median_center_at_the_papers_size(num, dim):
    rng = np.random.default_rng(num)
    estimates, gram = rng.standard_t(3, size=(num, dim)), random_gram(rng, dim)
    index, radius = kernels.median_center(jnp.asarray(estimates), jnp.asarray(gram))
    expected_index, expected_radius = numpy_center(estimates, gram)
    assert int(index) == expected_index
    np.testing.assert_allclose(radius, expected_radius, rtol=1e-12)


@pytest.mark.parametrize("row", [0, 5, 20])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_the_center_survives_an_estimate_that_is_not_finite(row, bad):
    estimates = np.random.default_rng(9).normal(size=(21, 3))
    rest = np.delete(estimates, row, axis=0)
    estimates[row] = bad
    index, radius = kernels.median_center(jnp.asarray(estimates), jnp.eye(3))
    assert int(index) != row
    assert np.isfinite(float(radius))
    distances = np.linalg.norm(rest[:, None] - rest[None], axis=-1)
    # the bad one counts as infinitely far from all others
    medians = [np.sort(np.append(np.delete(row_, j), np.inf))[9:11].mean() for j, row_ in enumerate(distances)]
    np.testing.assert_allclose(radius, min(medians), rtol=1e-10)


@pytest.mark.parametrize(("bad", "radius"), [(9, "finite"), (12, np.inf), (21, np.nan)])
def test_the_center_where_most_of_the_first_estimates_are_no_numbers(bad, radius):
    estimates = np.random.default_rng(10).normal(size=(21, 3))
    estimates[:bad] = np.nan
    index, found = kernels.median_center(jnp.asarray(estimates), jnp.eye(3))
    if radius == "finite":
        assert int(index) >= bad
        assert np.isfinite(found)
    else:
        np.testing.assert_array_equal(found, radius)


def test_one_estimate_is_its_own_center():
    index, radius = kernels.median_center(jnp.ones((1, 3)), jnp.eye(3))
    assert (int(index), float(radius)) == (0, 0.0)


@pytest.mark.parametrize(("pulls", "blocks"), [(1, 1), (6, 2), (141, 64), (10, 3), (7, 7)])
def test_median_of_means(pulls, blocks):
    payoffs = np.random.default_rng(pulls).standard_t(2, size=pulls)
    length = pulls // blocks
    expected = np.median(payoffs[: length * blocks].reshape(blocks, length).mean(axis=1))
    np.testing.assert_allclose(kernels.median_of_means(jnp.asarray(payoffs), blocks), expected, rtol=1e-14)


INF, NAN = np.inf, np.nan


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "payoffs",
    [
        [-1.0, 2.0, -3.0, 4.0],
        [-0.0, 0.0, 0.0, -0.0],
        [5.0] * 7,
        [-5e-30, 1e30, 3e-38, -1e30],
        [-INF, 1.0, 2.0],
        [INF, INF, 1.0],
        [INF, INF, INF, -1.0],
        [1.0, -INF, 3.0, INF],
        [NAN, 1.0, 2.0],
        [-NAN, 1.0, 7.0, 2.0, NAN],
        [-3.0, -2.0, -1.0, -7.0, -7.0],
        [NAN, 1.0, -NAN, 2.0],
        [INF, NAN, 1.0, NAN],
    ],
)
def test_the_median_of_any_floats(payoffs, dtype):
    payoffs = np.array(payoffs, dtype)
    ordered = np.sort(payoffs)  # NaN last
    low, high = ordered[(payoffs.size - 1) // 2], ordered[payoffs.size // 2]
    expected = low if low == high else low + (high - low) / 2
    got = kernels.median_of_means(jnp.asarray(payoffs), payoffs.size)
    np.testing.assert_array_equal(got, expected)
    assert got.dtype == dtype


# Choosing


def test_ties_go_to_the_lowest_index():  # P1
    arms = jnp.ones((4, 3))
    assert int(kernels.optimistic_arm(arms, jnp.zeros(3), jnp.eye(3), jnp.asarray(1.0))) == 0
    assert int(kernels.optimistic_arm(arms.at[0].set(0), jnp.zeros(3), jnp.eye(3), jnp.asarray(1.0))) == 1


def test_ties_are_ties_up_to_rounding():
    arms = jnp.array([[0.1 + 0.2], [0.3 + 1e-13], [0.3]])
    assert int(kernels.optimistic_arm(arms, jnp.ones(1), jnp.eye(1), jnp.asarray(1.0))) == 0
    clear = jnp.array([[0.3], [0.3 + 1e-9]])
    assert int(kernels.optimistic_arm(clear, jnp.ones(1), jnp.eye(1), jnp.asarray(1.0))) == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_tolerance_of_a_tie(dtype):
    tolerance = TIE_TOLERANCE[dtype]
    center, gram_inverse, radius = jnp.ones(1, dtype), jnp.eye(1, dtype=dtype), jnp.zeros((), dtype)
    for less, chosen in ((tolerance / 2, 0), (2 * tolerance, 1)):
        arms = jnp.asarray([[3.0 * (1 - less)], [3.0]], dtype)
        assert int(kernels.optimistic_arm(arms, center, gram_inverse, radius)) == chosen
    assert tolerance > 30 * np.finfo(dtype).eps  # of the sums of d products, many roundings


def test_widths_at_the_start():  # P3
    from linbet_jax.kernels.selection import squared_widths

    assert float(jnp.sqrt(squared_widths(jnp.array([[1.0, 0.0]]), jnp.eye(2) / 4)[0])) == 0.5


def test_optimistic_arm_is_the_argmax():
    rng = np.random.default_rng(7)
    gram = random_gram(rng, 6)
    arms, center = rng.normal(size=(30, 6)), rng.normal(size=6)
    for radius in (0.0, 0.3, 10.0):
        indices = arms @ center + radius * np.sqrt(np.einsum("kd,de,ke->k", arms, np.linalg.inv(gram), arms))
        got = kernels.optimistic_arm(*map(jnp.asarray, (arms, center, np.linalg.inv(gram), radius)))
        assert int(got) == int(np.argmax(indices))


# Every kernel: NaN, dtype, batching, wrong shapes

NUMBERS = {
    "ridge_estimates": (kernels.ridge_estimates, (np.eye(3), np.ones((3, 2)))),
    "inverse_sqrt": (kernels.inverse_sqrt, (np.eye(3),)),
    "truncated_estimate": (kernels.truncated_estimate, (np.ones((4, 3)), np.ones(4), np.eye(3), 2.0)),
    "one-sided": (
        lambda *arrays: kernels.truncated_estimate(*arrays, two_sided=False),
        (np.ones((4, 3)), np.ones(4), np.eye(3), 2.0),
    ),
    "doubtful": (
        lambda feature, payoff, root, level, inverse: kernels.doubtful_estimate(
            *kernels.doubtful_update(kernels.doubtful_init(3, 4), feature, payoff, root, level), inverse, root
        ),
        (np.ones(3), 1.0, np.eye(3), 2.0, np.eye(3)),
    ),
    "median_of_means": (lambda payoffs: kernels.median_of_means(payoffs, 1), (np.ones(4),)),
    "median_center": (lambda gram: kernels.median_center(jnp.arange(12.0).reshape(4, 3), gram)[1], (np.eye(3),)),
    "shifted_inverses": (
        lambda gram, lower: kernels.shifted_inverses(gram, lower, 1e4).root,
        (np.eye(3), 1.0),
    ),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_what_is_not_a_number_makes_the_result_none(name):
    kernel, arrays = NUMBERS[name]
    assert np.isfinite(kernel(*map(jnp.asarray, arrays))).all()
    for place, array in enumerate(arrays):
        broken = np.array(array)
        broken.flat[-1] = np.nan
        result = kernel(*map(jnp.asarray, (*arrays[:place], broken, *arrays[place + 1 :])))
        assert np.isnan(result).any(), place


@pytest.mark.parametrize("place", range(4))
def test_no_arm_has_the_largest_index_where_one_is_not_a_number(place):
    arrays = [np.eye(3), np.ones(3), np.eye(3), 1.0]
    assert int(kernels.optimistic_arm(*map(jnp.asarray, arrays))) == 0
    arrays[place] = np.array(arrays[place])
    arrays[place].flat[-1] = np.nan
    assert int(kernels.optimistic_arm(*map(jnp.asarray, arrays))) == -1


@pytest.mark.parametrize(("num_blocks", "count"), [(5, 15), (4, 14), (1, 3)])
def test_the_derivative_of_a_median_of_means(num_blocks, count):
    payoffs = jnp.asarray(np.random.default_rng(count).standard_t(2, size=count))
    median = jax.jit(functools.partial(kernels.median_of_means, num_blocks=num_blocks))
    check_grads(median, (payoffs,), order=1, eps=1e-6)
    batched = jax.vmap(jax.grad(median))(jnp.stack([payoffs, -payoffs]))
    np.testing.assert_allclose(batched.sum(axis=1), 1, rtol=1e-12)  # all payoffs one higher, the median too
    assert np.isnan(jax.grad(median)(jnp.full_like(payoffs, jnp.nan))).any()


@pytest.mark.parametrize("num", [2, 7])
def test_the_derivative_of_a_center_s_radius(num):
    rng = np.random.default_rng(num)
    estimates, gram = jnp.asarray(rng.normal(size=(num, 3))), jnp.asarray(random_gram(rng, 3))

    def radius(estimates, gram):
        return kernels.median_center(estimates, (gram + gram.T) / 2)[1]

    check_grads(jax.jit(radius), (estimates, gram), order=1, eps=1e-6)
    equal = jax.grad(radius)(jnp.ones((num, 3)), gram)
    assert not equal.any()


def test_an_infinite_level_truncates_nothing():
    features, payoffs = jnp.ones((3, 2)), jnp.array([1.0, 1e30, -1e20])
    free = kernels.truncated_estimate(features, payoffs, jnp.eye(2), jnp.inf)
    np.testing.assert_allclose(free, features.T @ payoffs, rtol=1e-12)


CALLS = {
    "ridge_estimates": lambda t: kernels.ridge_estimates(t(jnp.eye(3)), t(jnp.ones((3, 5)))),
    "inverse_sqrt": lambda t: kernels.inverse_sqrt(t(jnp.eye(3))),
    "median_center": lambda t: kernels.median_center(t(jnp.arange(15.0).reshape(5, 3)), t(jnp.eye(3)))[1],
    "truncated_estimate": lambda t: kernels.truncated_estimate(
        t(jnp.ones((4, 3))), t(jnp.ones(4)), t(jnp.eye(3)), t(1.0)
    ),
    "doubtful": lambda t: kernels.doubtful_update(
        kernels.doubtful_init(3, 4, t(1.0).dtype), t(jnp.ones(3)), t(9.0), t(jnp.eye(3)), t(1.0)
    ),
    "median_of_means": lambda t: kernels.median_of_means(t(jnp.arange(6.0)), 3),
    "shifted_inverses": lambda t: kernels.shifted_inverses(t(jnp.eye(3)), t(1.0), 1e4),
}


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_kernels_follow_the_dtype_of_their_arrays(name, x64):
    with jax.enable_x64(x64):
        for dtype in [jnp.float32] + [jnp.float64] * x64:
            result = CALLS[name](lambda value, dtype=dtype: jnp.asarray(value, dtype))
            floats = [leaf for leaf in jax.tree.leaves(result) if jnp.issubdtype(leaf.dtype, jnp.floating)]
            assert floats
            assert {leaf.dtype for leaf in floats} == {jnp.dtype(dtype)}


def test_batching_equals_a_loop():
    rng = np.random.default_rng(8)
    estimates = jnp.asarray(rng.standard_t(2, size=(6, 21, 4)))
    grams = jnp.asarray(np.stack([random_gram(rng, 4) for _ in range(6)]))
    features, payoffs = jnp.asarray(rng.uniform(size=(6, 30, 4))), jnp.asarray(rng.standard_t(1.5, size=(6, 30)))
    index, radius = jax.vmap(kernels.median_center)(estimates, grams)
    truncated = jax.vmap(lambda x, y, v: kernels.truncated_estimate(x, y, v, 0.5))(features, payoffs, grams)
    for i in range(6):
        alone = kernels.median_center(estimates[i], grams[i])
        assert int(index[i]) == int(alone[0])
        np.testing.assert_allclose(radius[i], alone[1], rtol=1e-13)
        np.testing.assert_allclose(
            truncated[i], kernels.truncated_estimate(features[i], payoffs[i], grams[i], 0.5), rtol=1e-11, atol=1e-13
        )


@pytest.mark.parametrize(
    "call",
    [
        lambda: kernels.ridge_estimates(jnp.eye(3), jnp.ones((4, 2))),
        lambda: kernels.inverse_sqrt(jnp.ones((2, 3))),
        lambda: kernels.median_center(jnp.ones((5, 3)), jnp.eye(4)),
        lambda: kernels.truncated_estimate(jnp.ones((4, 3)), jnp.ones(5), jnp.eye(3), 1.0),
        lambda: kernels.truncated_estimate(jnp.ones((4, 3)), jnp.ones(4), jnp.eye(3), 1.0, mask=jnp.ones(3, bool)),
        lambda: kernels.optimistic_arm(jnp.ones((4, 3)), jnp.ones(2), jnp.eye(3), 1.0),
        lambda: kernels.optimistic_arm(jnp.ones((4, 3)), jnp.ones(3), jnp.eye(3), jnp.ones(4)),
        lambda: kernels.median_of_means(jnp.ones(4), 5),
        lambda: kernels.median_of_means(jnp.ones(4), 0),
        lambda: kernels.truncated_estimate(jnp.ones((4, 3)), jnp.ones(4), jnp.eye(3), jnp.ones(3)),
        lambda: kernels.doubtful_init(0, 4),
        lambda: kernels.doubtful_init(3, 0),
        lambda: kernels.doubtful_init(3, 1.5),
        lambda: kernels.doubtful_init(3, None),
        lambda: kernels.doubtful_update(STATE, jnp.ones(2), 1.0, jnp.eye(2), jnp.ones(4)),  # as many as slots
        lambda: kernels.doubtful_estimate(STATE, jnp.ones(3), jnp.eye(2), jnp.eye(2)),
    ],
)
def test_wrong_shapes_are_refused_before_anything_runs(call):
    with pytest.raises(ValueError, match=r"expected|must be"):
        call()


X, Y, V, X0 = jnp.ones((3, 2)), jnp.ones(3), jnp.eye(2), jnp.ones(2)
STATE = kernels.doubtful_init(2, 3)
SHIFTED = kernels.ShiftedInverses(jnp.ones((2, 2, 4)), V, jnp.zeros((2, 4)), jnp.zeros((2, 4)))
ARGUMENTS = {  # of every kernel, all that are arrays
    "ridge_estimates": ({"gram": V, "moments": X.T}, {}),
    "inverse_sqrt": ({"gram": V}, {}),
    "shifted_inverses": ({"gram": V}, {"lower": 1.0, "condition": 10.0}),
    "shifted_inverses_update": ({"feature": X0}, {"state": SHIFTED, "lower": 1.0, "condition": 10.0}),
    "shifted_inverses_defer": ({"feature": X0}, {"state": SHIFTED, "lower": 1.0, "condition": 10.0}),
    "shifted_inverses_settle": ({"feature": X0}, {"state": SHIFTED, "lower": 1.0, "condition": 10.0}),
    "median_center": ({"estimates": X, "gram": V}, {}),
    "truncated_estimate": ({"features": X, "payoffs": Y, "gram": V}, {"level": 1.0}),
    "doubtful_update": ({"feature": X0, "root": V}, {"state": STATE, "payoff": 1.0, "level": 1.0}),
    "doubtful_estimate": ({"sums": X0, "gram_inverse": V, "root": V}, {"state": STATE}),
    "median_of_means": ({"payoffs": Y}, {"num_blocks": 3}),
    "catoni_estimate": ({"weights": Y, "payoffs": Y, "references": Y, "moment": Y}, {"epsilon": 1.0, "delta": 0.1}),
    "btc_estimate": ({"weights": Y, "payoffs": Y, "references": Y, "moment": Y}, {"epsilon": 1.0, "delta": 0.1}),
    "bmm_estimate": ({"weights": Y, "payoffs": X, "references": Y, "moment": Y}, {"epsilon": 1.0}),
    "exact_design": ({"arms": X}, {"num_rows": 4, "ridge": 1.0}),
    "optimistic_arm": ({"arms": X, "center": X0, "gram_inverse": V}, {"radius": 1}),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_what_is_no_array_of_floats_is_refused_by_its_name(name):
    arrays, others = ARGUMENTS[name]
    kernel = getattr(kernels, name)
    call = functools.partial(jax.eval_shape, lambda values: kernel(**values, **others))
    for argument, array in arrays.items():
        for dtype in (jnp.bfloat16, jnp.float16, jnp.complex64):
            with pytest.raises(ValueError, match=rf"^{argument} must be of float32 or float64, got {jnp.dtype(dtype)}"):
                call({**arrays, argument: array.astype(dtype)})
        with pytest.raises(
            ValueError, match=rf"{argument} must be an array, got a list: use jnp.asarray\({argument}\)"
        ):
            call({**arrays, argument: array.tolist()})
    call({argument: array.astype(int) for argument, array in arrays.items()})


def test_an_empty_state_is_of_floats():
    with pytest.raises(ValueError, match="dtype must be float32 or float64, got float16"):
        kernels.doubtful_init(2, 3, jnp.float16)


def test_median_of_means_inside_a_jit_of_one_s_own():
    payoffs = jnp.array([1.0, 9.0, 2.0])
    assert jax.jit(kernels.median_of_means, static_argnums=1)(payoffs, 3) == 2.0
    assert jax.jit(kernels.median_of_means, static_argnames="num_blocks")(payoffs, num_blocks=1) == 4.0


@pytest.mark.parametrize("feature", [[0.0, 0.0], [1.0, 0.0]])
def test_an_infinite_payoff_counts_for_nothing(feature):
    features, payoffs = jnp.array([feature, [0.5, 1.0]]), jnp.array([jnp.inf, 1.0])
    gram = jnp.eye(2) + jnp.diag(jnp.sum(features**2, axis=0))
    root = jnp.diag(jnp.diag(gram) ** -0.5)
    alone = kernels.truncated_estimate(features[1:], payoffs[1:], gram, 5.0)
    np.testing.assert_allclose(kernels.truncated_estimate(features, payoffs, gram, 5.0), alone)
    state = kernels.doubtful_init(2, 3)
    for row, payoff in zip(features, payoffs, strict=True):
        state, sums = kernels.doubtful_update(state, row, payoff, root, 5.0)
    np.testing.assert_allclose(kernels.doubtful_estimate(state, sums, root @ root, root), alone)


def test_medians_of_numbers_that_differ_in_their_last_bits_alone():
    """Their upper 32 bits are the same: rows where these decide and rows where they do not, in one batch."""
    rng = np.random.default_rng(0)
    rows = np.stack([
        1.0 + rng.integers(0, 2**18, 40) * 2.0**-52,
        -3.0 - rng.integers(0, 50, 40) * 2.0**-51,
        rng.standard_t(3, 40),
        np.full(40, 0.1),
        np.where(np.arange(40) < 25, 2.0 + rng.integers(0, 9, 40) * 2.0**-51, rng.normal(size=40)),
        5e-324 * rng.integers(-9, 9, 40),
    ])  # fmt: skip
    for count in (39, 40):
        medians = jax.vmap(lambda row, q=count: kernels.median_of_means(row[:q], q))(jnp.asarray(rows))
        expected = np.median(rows[:, :count], axis=1)
        np.testing.assert_allclose(medians, expected, rtol=4e-16, atol=5e-324)
        if count % 2:
            np.testing.assert_array_equal(medians, expected)


@pytest.mark.parametrize("pair", [(-np.inf, 1.0), (1.0, np.inf), (-1.7e308, 1.7e308), (1.7e308, 1.7e308)])
def test_medians_of_two_at_the_ends(pair):
    assert kernels.median_of_means(jnp.asarray(pair), 2) == 0.5 * pair[0] + 0.5 * pair[1]
