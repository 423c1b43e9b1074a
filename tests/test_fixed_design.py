"""Kernels of fixed designs: plain NumPy references, degenerate cases, how often a width is exceeded, certificates."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles_elim import greedy_counts

from linbet_jax import kernels

ROBUST = {"catoni": kernels.catoni_estimate, "btc": kernels.btc_estimate}


def reference(name, weights, payoffs, moment, epsilon, delta, references):
    """One payoff after the other, as the pseudocode says."""
    p, log_term = 1 + epsilon, math.log(2 / delta)
    moments, references = np.broadcast_to(moment, weights.shape), np.broadcast_to(references, weights.shape)
    spread = sum(abs(u) ** p * m for u, m in zip(weights, moments, strict=True)) ** (1 / p)
    total = sum(u * r for u, r in zip(weights, references, strict=True))
    for u, y, r in zip(weights, payoffs, references, strict=True):
        z = u * (y - r)
        if name == "btc":
            total += z if abs(z) <= spread * log_term ** (-1 / p) else 0
        else:
            s = (p * log_term / (p - 1)) ** (1 / p) / spread
            total += math.copysign(math.log(1 + abs(s * z) + abs(s * z) ** p / p), z) / s
    factor = 2.75 if name == "btc" else (p / (p - 1)) ** (epsilon / p)
    return total, factor * spread * log_term ** (epsilon / p)


@pytest.mark.parametrize("name", ROBUST)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_robust_sums_are_the_pseudocode(name, dtype):
    rng = np.random.default_rng(0)
    weights, payoffs = rng.normal(size=(2, 40)) * [[0.05], [3.0]]
    payoffs[7], moments, references = 400.0, rng.uniform(1.0, 5.0, size=40), rng.normal(size=40)
    arrays = [jnp.asarray(array, dtype) for array in (weights, payoffs)]
    for epsilon, delta in ((1.0, 0.1), (0.5, 0.01), (0.05, 0.3)):
        got = ROBUST[name](
            *arrays, moment=jnp.asarray(moments, dtype), epsilon=jnp.asarray(epsilon, dtype),
            delta=jnp.asarray(delta, dtype), references=jnp.asarray(references, dtype),
        )  # fmt: skip
        assert [part.dtype for part in got] == [dtype, dtype]
        expected = reference(name, weights, payoffs, moments, epsilon, delta, references)
        np.testing.assert_allclose(got, expected, rtol=1e-12 if dtype == np.float64 else 2e-5)


def test_medians_of_copies_are_the_pseudocode():
    rng = np.random.default_rng(1)
    weights, payoffs = rng.normal(size=12), rng.standard_t(2.0, size=(12, 19))
    payoffs[2, 3], weights[0] = 1e200, 0.0
    for epsilon in (1.0, 0.5):
        p = 1 + epsilon
        got = kernels.bmm_estimate(jnp.asarray(weights), jnp.asarray(payoffs), moment=3.0, epsilon=epsilon)
        width = (2 ** (4 - p) * 3.0 * np.sum(np.abs(weights) ** p)) ** (1 / p)
        np.testing.assert_allclose(got, (np.median(weights @ payoffs), width), rtol=1e-12)
    centred = kernels.bmm_estimate(
        jnp.asarray(weights), jnp.asarray(payoffs), moment=3.0, epsilon=0.5, references=jnp.ones(12)
    )
    np.testing.assert_allclose(centred, got, rtol=1e-9)
    payoffs[0, :] = np.inf  # where there is no weight
    again = kernels.bmm_estimate(jnp.asarray(weights), jnp.asarray(payoffs), moment=3.0, epsilon=0.5)
    np.testing.assert_array_equal(again, got)


def test_one_arm_in_one_dimension_is_a_mean():
    """With x = 1 and next to no ridge the weights are 1/n: the estimates are those of a mean."""
    rng, n, b, delta = np.random.default_rng(2), 64, 4.0, 0.05
    payoffs = rng.standard_t(1.8, size=n)
    weights, log_term = jnp.full(n, 1 / n), math.log(2 / delta)
    known = {"moment": b, "epsilon": 0.5, "delta": delta}
    level = (b * n / log_term) ** (1 / 1.5)  # Bubeck, Cesa-Bianchi and Lugosi's at their last payoff
    got, width = kernels.btc_estimate(weights, jnp.asarray(payoffs), **known)
    np.testing.assert_allclose(got, np.mean(np.where(np.abs(payoffs) <= level, payoffs, 0)), rtol=1e-12)
    np.testing.assert_allclose(width, 2.75 * b ** (1 / 1.5) * (log_term / n) ** (1 / 3), rtol=1e-12)
    got, width = kernels.catoni_estimate(weights, jnp.asarray(payoffs), **known)
    alpha = (3 * log_term / (b * n)) ** (1 / 1.5)
    z = alpha * np.abs(payoffs)
    np.testing.assert_allclose(got, np.mean(np.sign(payoffs) * np.log(1 + z + z**1.5 / 1.5)) / alpha, rtol=1e-12)
    np.testing.assert_allclose(width, 3 ** (1 / 3) * b ** (1 / 1.5) * (log_term / n) ** (1 / 3), rtol=1e-12)
    copies = rng.standard_t(1.8, size=(n, 9))
    got, _ = kernels.bmm_estimate(weights, jnp.asarray(copies), moment=b, epsilon=0.5)
    np.testing.assert_allclose(got, np.median(copies.mean(axis=0)), rtol=1e-12)


@pytest.mark.parametrize("name", ROBUST)
def test_hard_numbers(name):
    estimate = functools.partial(ROBUST[name], moment=2.0, delta=0.1)
    weights = jnp.asarray([0.1, -0.2, 0.0, 0.3])
    for epsilon in (1.0, 0.5):
        huge, width = estimate(weights, jnp.asarray([1.0, 1e200, 1e300, -1e200]), epsilon=epsilon)
        assert np.isfinite([huge, width]).all()
        weightless, _ = estimate(weights, jnp.asarray([1.0, 2.0, np.inf, 3.0]), epsilon=epsilon)
        alike, _ = estimate(weights, jnp.asarray([1.0, 2.0, 0.0, 3.0]), epsilon=epsilon)
        assert weightless == alike
        got, _ = estimate(weights, jnp.asarray([1.0, -np.inf, 0.0, 3.0]), epsilon=epsilon)
        assert got == np.inf if name == "catoni" else np.isfinite(got)
        nothing = estimate(jnp.zeros(4), jnp.asarray([1.0, 1e200, np.inf, 3.0]), epsilon=epsilon, references=5.0)
        assert nothing == (0.0, 0.0)
    with jax.debug_nans(True):
        estimate(jnp.zeros(4), jnp.ones(4), epsilon=0.5)


def two_point(rng, shape, order, q):
    """Mean 0, E|eta|^order = 1: a rare large value and a frequent small one."""
    high = (q + (1 - q) * (q / (1 - q)) ** order) ** (-1 / order)
    return np.where(rng.uniform(size=shape) < q, high, -high * q / (1 - q))


def test_widths_are_exceeded_in_no_more_than_delta_of_the_cases():
    rng, runs, n = np.random.default_rng(4), 4_000, 24
    weights = jnp.asarray(rng.uniform(0.5, 1.0, size=n) / n)
    for epsilon, q in ((1.0, 0.02), (0.5, 0.005)):
        noise = jnp.asarray(two_point(rng, (runs, n), 1 + epsilon, q))
        for name, estimate in ROBUST.items():
            values, widths = jax.vmap(lambda y, f=estimate, e=epsilon: f(weights, y, moment=1.0, epsilon=e, delta=0.1))(
                noise
            )
            assert np.mean(np.abs(values) > widths) <= 0.1, name
        copies = jnp.asarray(two_point(rng, (runs, n, 5), 1 + epsilon, q))
        single, width = jax.vmap(lambda y, e=epsilon: kernels.bmm_estimate(weights, y, moment=1.0, epsilon=e))(
            copies[:, :, :1]
        )
        assert np.mean(np.abs(single) > width) <= 0.25  # one copy
        medians, width = jax.vmap(lambda y, e=epsilon: kernels.bmm_estimate(weights, y, moment=1.0, epsilon=e))(copies)
        assert np.mean(np.abs(medians) > width) <= 0.104  # P(Bin(5, 1/4) >= 3)


SETS = {
    "circle": lambda rng: np.stack([np.cos(angles := np.arange(2000) * np.pi / 1000), np.sin(angles)], axis=1),
    "few": lambda rng: rng.normal(size=(7, 10)),
    "zero": lambda rng: np.vstack([np.zeros(4), rng.uniform(size=(6, 4))]),
    "plane": lambda rng: rng.uniform(size=(9, 2)) @ rng.normal(size=(2, 5)),
}


@pytest.mark.parametrize("kind", SETS)
def test_designs_are_nearly_g_optimal_and_exact(kind):
    arms = SETS[kind](np.random.default_rng(5))
    rank = np.linalg.matrix_rank(arms)
    for ridge in (1.0, 1e-6):
        for rows in (2 * arms.shape[1], 300):
            counts, certificate = kernels.exact_design(jnp.asarray(arms), jnp.asarray(rows), ridge=ridge)
            counts = np.asarray(counts)
            assert counts.dtype == np.int32
            assert counts.sum() == rows
            assert counts.min() >= 0
            inverse = np.linalg.inv(ridge * np.eye(arms.shape[1]) + arms.T @ (counts[:, None] * arms))
            expected = rows * np.max(np.einsum("kd,de,ke->k", arms, inverse, arms))
            np.testing.assert_allclose(certificate, expected, rtol=1e-6)
            assert certificate <= 1.7 * rank
            if kind == "zero":
                assert counts[0] == 0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_masked_design_is_that_of_the_arms_left(dtype):
    arms = np.random.default_rng(6).normal(size=(8, 3))
    mask = np.array([True, False, True, True, False, True, True, True])
    counts, certificate = kernels.exact_design(jnp.asarray(arms, dtype), 30, ridge=0.1, mask=jnp.asarray(mask))
    expected, gram = greedy_counts(arms, 30, 0.1, mask)
    np.testing.assert_array_equal(counts, expected)
    assert not np.any(np.asarray(counts)[~mask])
    leverages = np.einsum("kd,de,ke->k", arms, np.linalg.inv(gram), arms)
    np.testing.assert_allclose(certificate, 30 * leverages[mask].max(), rtol=1e-5)
    assert certificate.dtype == dtype


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match=r"weights \(3,\) and payoffs \(4,\): expected \[n\] and \[n\]"):
        kernels.catoni_estimate(jnp.ones(3), jnp.ones(4), moment=1.0, epsilon=1.0, delta=0.1)
    with pytest.raises(ValueError, match=r"expected \[n\] and \[n, k\]"):
        kernels.bmm_estimate(jnp.ones(3), jnp.ones(3), moment=1.0, epsilon=1.0)
    with pytest.raises(ValueError, match=r"arms \(3,\), mask None: expected \[K, d\] and \[K\]"):
        kernels.exact_design(jnp.ones(3), 3, ridge=1.0)
