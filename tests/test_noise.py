"""Payoff laws: exact laws of the samples, exact moments, and the samplers bit by bit."""

import copy
import dataclasses
import functools
import itertools
import math
import pickle
import re

import chex
import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from scipy import special, stats
from traces import compiled_quickly, programs_at_most, quickly

import linbet_jax as lb
from linbet_jax import noise
from linbet_jax.noise import (
    Burr,
    CenteredPareto,
    Custom,
    Empirical,
    EmpiricalPerArm,
    Frechet,
    Gaussian,
    LogNormal,
    Mixture,
    Pareto,
    StudentT,
    SymmetricPareto,
    SymmetricStable,
    TwoPoint,
    TwoPointNoise,
    Weibull,
    moments,
    words,
)
from linbet_jax.noise.words import expm1

quick_compiles = pytest.fixture(autouse=True, scope="module")(compiled_quickly)

LAWS = (
    StudentT(3.0),
    StudentT(1.5, scale=2.0),
    Gaussian(0.7),
    Pareto(2.0),
    CenteredPareto(1.6, scale=0.5),
    SymmetricPareto(2.5),
    LogNormal(1.2),
    TwoPoint(4.0),
    TwoPointNoise(3.0),
    Weibull(0.6),
    Frechet(1.7, scale=0.5),
    Burr(2.0, 0.9),
)
ONE_SIDED = CenteredPareto, Weibull, Frechet, Burr
EXTREME = (
    StudentT(1.02),
    StudentT(0.5),
    StudentT(1e30),
    Pareto(1.02),
    Pareto(1e6),
    CenteredPareto(1.02),
    SymmetricPareto(1.02),
    SymmetricStable(1.02),
    SymmetricStable(1.9999),
    SymmetricStable(0.75),
    LogNormal(5.0),
    LogNormal(1e-6),
    Weibull(0.2),
    Weibull(1e6),
    Frechet(1.02),
    Burr(90.0, 0.012),
    Burr(0.2, 6.0),
)
IDS = [law.name for law in LAWS]
MEAN = 1.25  # allowed by every law above


def ks_p_value(sample, cdf, slack=0.0):
    """Two-sided Kolmogorov-Smirnov p-value; laws with atoms are handled (conservatively) by their left limits.

    The sample's values are known up to the relative error `slack` only (atoms in float32).
    """
    points, counts = np.unique(np.asarray(sample, np.float64), return_counts=True)
    after = np.cumsum(counts) / counts.sum()
    before = np.concatenate([[0.0], after[:-1]])
    above, below = points + slack * np.abs(points), np.nextafter(points - slack * np.abs(points), -np.inf)
    gap = max(np.max(np.abs(after - cdf(above))), np.max(np.abs(before - cdf(below))))
    return special.kolmogorov(math.sqrt(counts.sum()) * gap)


@functools.partial(jax.jit, static_argnames=("count", "dtype"))
def standards(law, key, count, dtype):
    """Variates 0..count-1 of a key, the i-th from fold_in(key, i)."""
    return jax.vmap(lambda i: law.standard(jax.random.fold_in(key, i), dtype))(jnp.arange(count))


def words_of(*numbers):
    """64-bit numbers as 32-bit halves [len(numbers), 2]."""
    return jnp.asarray([[n >> 32, n & 0xFFFFFFFF] for n in numbers], jnp.uint32)


# The samplers against the exact laws ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_n1_student_t_has_the_exact_law(seed):
    law, draws = StudentT(3.0), 200_000
    sample = np.asarray(law.sample(jax.random.key(seed), 0.0, (draws,), jnp.float64))
    assert ks_p_value(sample, law.cdf) > 1e-3
    far = 2.0 * law.cdf(-10.0)
    assert far == pytest.approx(0.0021285, rel=1e-4)
    assert abs(np.mean(np.abs(sample) > 10.0) - far) < 4.0 * math.sqrt(far * (1.0 - far) / draws)


def equations(jaxpr):
    """All equations of a jaxpr, inner ones included."""
    for eqn in jaxpr.eqns:
        yield eqn
        for value in jax.tree.leaves(list(eqn.params.values()), is_leaf=lambda v: hasattr(v, "eqns")):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from equations(inner)


def test_n1_the_two_uniforms_come_from_different_keys():
    law, key = StudentT(3.0), jax.random.key(11)
    first, second = (jax.random.bits(k, (2,), jnp.uint32) for k in jax.random.split(key))
    expected = law.transform(jnp.stack([first, second]), jnp.float64)
    assert float(law.standard(key, jnp.float64)) == pytest.approx(float(expected), rel=1e-14)
    assert not np.array_equal(first, second)


def test_n2_pareto_starts_at_its_scale():
    law, mean, draws = Pareto(3.0), 6.0, 1_000_000  # scale 4
    sample = np.asarray(law.sample(jax.random.key(2), mean, (draws,), jnp.float64))
    assert 4.0 <= sample.min() < 4.0001
    assert abs(sample.mean() - mean) < 5.0 * law.std(mean) / math.sqrt(draws)
    assert law.std(mean) == pytest.approx(4.0 * math.sqrt(3.0 / 4.0), rel=1e-14)


LATTICE = (0, 1, (2**23 - 1) << 41, 2**63 - 1, 2**63, 2**64 - 1)  # 0, tiny, 1 - 2^-23, the middle, all ones


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("law", LAWS + EXTREME, ids=lambda law: law.name)
def test_n3_the_ends_of_the_uniform_lattice_are_finite(law, dtype):
    words = jnp.stack([words_of(*numbers) for numbers in itertools.product(LATTICE, repeat=law.uniforms)])
    with jax.debug_nans(True), jax.debug_infs(True):
        variates = law.transform(words, dtype)
        assert variates.dtype == dtype
        assert np.isfinite(np.asarray(variates)).all()
        assert np.isfinite(np.asarray(law.payoff(variates, MEAN))).all()


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_uniforms_keep_their_relative_precision_at_both_ends(dtype):
    eps = float(jnp.finfo(dtype).eps)
    numbers = [0, 1, 5, 2**31, 2**40 + 3, 2**63 - 1, 2**63, 2**64 - 2**20, 2**64 - 2, 2**64 - 1]
    words = words_of(*numbers)
    with mpmath.workdps(60):
        exact = [(mpmath.mpf(n) + 0.5) / 2**64 for n in numbers]
        energy = [float(-mpmath.log(u)) for u in exact]
        sine = [float(mpmath.sin(mpmath.pi * (u - 0.5))) for u in exact]
    np.testing.assert_allclose(noise.uniform(words, dtype), [float(u) for u in exact], rtol=2 * eps)
    np.testing.assert_allclose(noise.exponential(words, dtype), energy, rtol=8 * eps)
    np.testing.assert_allclose(noise.half_turn(words, dtype), sine, rtol=8 * eps, atol=2.0**-60)
    assert noise.uniform(words, dtype).min() > 0.0
    assert noise.exponential(words, dtype).min() > 0.0


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_the_series_agree_with_mpmath(dtype):
    eps = float(jnp.finfo(dtype).eps)
    switch = math.isqrt(2**127)  # sqrt(1/2), where the exponential changes its side
    ends = [2**k + step for k in range(40, 64) for step in (-1, 0, 1)] + [
        switch + step * 2**31 for step in range(-3, 4)
    ]
    numbers = ends + [int(n) for n in np.random.default_rng(2).integers(0, 2**64, 400, np.uint64)]
    with mpmath.workdps(40):
        exact = [(mpmath.mpf(n) + 0.5) / 2**64 for n in numbers]
        energy = [float(-mpmath.log(u)) for u in exact]
        sine = [float(mpmath.sin(mpmath.pi * (u - 0.5))) for u in exact]
        z = np.unique(np.concatenate([np.linspace(0.0, 88.0, 400), np.geomspace(1e-30, 1.0, 100)]).astype(dtype))
        grown = [float(mpmath.expm1(float(one))) for one in z]
    np.testing.assert_allclose(noise.exponential(words_of(*numbers), dtype), energy, rtol=4 * eps)
    np.testing.assert_allclose(noise.half_turn(words_of(*numbers), dtype), sine, rtol=4 * eps, atol=2.0**-60)
    np.testing.assert_allclose(expm1(jnp.asarray(z)), grown, rtol=4 * eps)


@pytest.mark.parametrize("x64", [False, True], ids=["x32", "x64"])
@pytest.mark.parametrize("law", LAWS, ids=IDS)
def test_samples_follow_the_cdf(law, x64):
    with jax.enable_x64(x64):
        sample = law.sample(jax.random.key(7), MEAN, (20_000,))
    assert sample.dtype == (jnp.float64 if x64 else jnp.float32)
    assert sample.shape == (20_000,)
    slack = float(jnp.finfo(sample.dtype).eps) * 4.0 if isinstance(law, (TwoPoint, TwoPointNoise)) else 0.0
    assert ks_p_value(sample, lambda x: law.cdf(x, MEAN), slack) > 1e-3


@pytest.mark.parametrize("law", [StudentT(3.0), Pareto(2.0)], ids=lambda law: law.name)
def test_float32_is_the_same_draw_with_x64_off_and_on(law):
    with jax.enable_x64(False):
        off = np.asarray(standards(law, jax.random.key(7), 1000, jnp.float32))
    on = np.asarray(standards(law, jax.random.key(7), 1000, jnp.float32))
    np.testing.assert_array_equal(off, on)
    exact = np.asarray(standards(law, jax.random.key(7), 1000, jnp.float64))
    np.testing.assert_allclose(on, exact, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("law", [Pareto(2.0), LogNormal(1.0), TwoPoint(3.0)], ids=lambda law: law.name)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_a_mean_of_zero_pays_nothing_and_a_full_mean_always(law, dtype):
    assert np.all(np.asarray(law.sample(jax.random.key(0), 0.0, (1000,), dtype)) == 0.0)
    np.testing.assert_array_equal(law.cdf([-1.0, -1e-300, 0.0, 1.0], 0.0), [0.0, 0.0, 1.0, 1.0])
    assert law.raw_moment(1.5, 0.0) == law.central_moment(1.5, 0.0) == 0.0
    if isinstance(law, TwoPoint):
        assert np.all(np.asarray(law.sample(jax.random.key(0), 3.0, (1000,), dtype)) == 3.0)
        assert float(law.payoff(law.transform(words_of(2**64 - 1), dtype), 3.0)) == 3.0


def test_n7_huge_degrees_of_freedom_are_the_gaussian_limit():
    key = jax.random.key(5)
    for dtype, rtol in ((jnp.float32, 1e-6), (jnp.float64, 1e-14)):
        for df in (1e30, 1e300):  # the second overflows float32
            t = np.asarray(standards(StudentT(df), key, 1000, dtype))
            np.testing.assert_allclose(t, standards(Gaussian(), key, 1000, dtype), rtol=rtol)
    law = StudentT(1e30)
    x = np.linspace(-8.0, 8.0, 33)
    np.testing.assert_allclose(law.cdf(x), Gaussian().cdf(x), rtol=1e-12)
    for order in (0.5, 1.0, 1.5, 2.0, 3.3):
        for mean in (0.0, 0.4, 30.0):
            assert law.raw_moment(order, mean) == pytest.approx(Gaussian().raw_moment(order, mean), rel=1e-11)
            assert law.central_moment(order, mean) == pytest.approx(Gaussian().central_moment(order), rel=1e-12)


def test_n8_a_barely_integrable_t_in_float32():
    law, draws = StudentT(1.02), 1_000_000
    with jax.enable_x64(False):
        sample = np.asarray(law.sample(jax.random.key(8), 0.0, (draws,)), np.float64)
    assert np.isfinite(sample).all()
    for level in (10.0, 1e3, 1e5, 1e6):
        share = 2.0 * law.cdf(-level)
        assert abs(np.mean(np.abs(sample) > level) - share) < 4.0 * math.sqrt(share / draws)


@pytest.mark.parametrize("law", LAWS, ids=IDS)
def test_p17_samplers_have_no_loop(law):
    for dtype in (jnp.float32, jnp.float64):
        jaxpr = jax.make_jaxpr(lambda key, d=dtype: law.payoff(law.standard(key, d), MEAN))(jax.random.key(0))
        names = {eqn.primitive.name for eqn in equations(jaxpr.jaxpr)}
        assert "random_bits" in names
        assert not names & {"while", "scan", "cond"}


# Golden values (case R6): float64, threefry2x32 with jax_threefry_partitionable, draw i from fold_in(key(0), i).
GOLDEN = {
    StudentT(3.0): (-1.885164227252593, -1.1021801711209844, 2.6884943441631357, 0.27610634334943157),
    Pareto(2.0): (1.08958955049629, 11.709005047174596, 1.052660993452811, 1.9353203580649816),
}

# The same for a law's stream, whose words are threefry2x32 of the index under fold_in(key(0), u).
STREAM = {
    StudentT(3.0): (-0.2403730652962282, 1.8118581035870391, 0.6546823826720101, 0.03253780207273373),
    Pareto(2.0): (1.015373382744243, 1.7812275062636382, 1.2298937853367204, 1.0043346154856612),
}


@pytest.mark.parametrize("law", GOLDEN, ids=lambda law: law.name)
def test_r6_golden_variates(law):
    key = jax.random.key(0, impl="threefry2x32")
    with jax.threefry_partitionable(True):
        np.testing.assert_allclose(standards(law, key, 4, "float64"), GOLDEN[law], rtol=1e-14)
        for x64 in (False, True):
            with jax.enable_x64(x64):
                np.testing.assert_allclose(standards(law, key, 4, "float32"), GOLDEN[law], rtol=5e-7)


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_the_words_of_a_stream_are_folded_keys(impl):
    key, indices = jax.random.key(5, impl=impl), np.array([0, 1, 7, 2**31, 2**32 - 1], np.uint32)
    words = noise.stream_words(key, 3)(jnp.asarray(indices))
    assert words.shape == (5, 3, 2)
    assert words.dtype == jnp.uint32
    for u in range(3):
        for row, index in enumerate(indices):
            folded = jax.random.key_data(jax.random.fold_in(jax.random.fold_in(key, u), index))
            np.testing.assert_array_equal(words[row, u], folded[:2])


@pytest.mark.parametrize("law", LAWS, ids=IDS)
def test_a_stream_turns_its_words_into_variates(law):
    key, indices = jax.random.key(9), jnp.array([3, 1, 2**20])
    drawn = law.stream(key, jnp.float64)(indices)
    words = noise.stream_words(key, law.uniforms)(indices)
    np.testing.assert_allclose(drawn, law.transform(words, jnp.float64), rtol=1e-14)
    np.testing.assert_allclose(law.stream(key, jnp.float64)(indices[::-1]), drawn[::-1], rtol=1e-14)
    many = np.asarray(law.sample(jax.random.key(10), MEAN, (20_000,), jnp.float64))
    assert ks_p_value(many, lambda x: law.cdf(x, MEAN)) > 1e-3


def test_golden_variates_of_a_stream():
    key = jax.random.key(0, impl="threefry2x32")
    for law, golden in STREAM.items():
        np.testing.assert_allclose(law.stream(key, jnp.float64)(jnp.arange(4)), golden, rtol=1e-14)
        np.testing.assert_allclose(law.stream(key, jnp.float32)(jnp.arange(4)), golden, rtol=5e-7)


def exact_variate(law, words):
    """The standard variate of 32-bit words [uniforms, 2], in 40 digits, from the textbook formulas."""
    numbers = [int(high) * 2**32 + int(low) for high, low in words]
    u = [(mpmath.mpf(n) + 0.5) / 2**64 for n in numbers]
    if isinstance(law, (StudentT, Gaussian, LogNormal)):
        cosine = mpmath.cos(2 * mpmath.pi * (1 - u[1]) / 2)  # of a uniform angle, folded onto half the circle
        if isinstance(law, StudentT):  # Bailey (1994)
            return mpmath.sqrt(law.df * (mpmath.power(u[0], mpmath.mpf(-2) / law.df) - 1)) * cosine
        return mpmath.sqrt(-2 * mpmath.log(u[0])) * cosine
    if isinstance(law, Pareto):
        return mpmath.power(u[0], -1 / mpmath.mpf(law.shape))
    if isinstance(law, CenteredPareto):
        shape = mpmath.mpf(law.shape)
        return mpmath.power(u[0], -1 / shape) - shape / (shape - 1)
    if isinstance(law, (Weibull, Frechet)):
        power = (1 if isinstance(law, Weibull) else -1) / mpmath.mpf(law.shape)
        return mpmath.power(-mpmath.log(u[0]), power) - mpmath.gamma(1 + power)
    if isinstance(law, Burr):
        c, d = mpmath.mpf(law.c), mpmath.mpf(law.d)
        return mpmath.power(mpmath.power(u[0], -1 / d) - 1, 1 / c) - d * mpmath.beta(d - 1 / c, 1 + 1 / c)
    if isinstance(law, SymmetricPareto):
        size = mpmath.power((mpmath.mpf(2 * numbers[0] % 2**64) + 0.5) / 2**64, -1 / mpmath.mpf(law.shape))
        return size if numbers[0] >= 2**63 else -size
    if isinstance(law, SymmetricStable):  # Chambers, Mallows, Stuck (1976)
        alpha, wait = mpmath.mpf(law.alpha), -mpmath.log(u[1])
        angle = mpmath.pi / 2 * (1 - (mpmath.mpf(2 * numbers[0] % 2**64) + 0.5) / 2**64)
        size = (mpmath.cos((1 - alpha) * angle) / wait) ** ((1 - alpha) / alpha)
        size *= mpmath.sin(alpha * angle) / mpmath.cos(angle) ** (1 / alpha)
        return size if numbers[0] >= 2**63 else -size
    if isinstance(law, TwoPoint):
        return u[0]
    return -law.gamma if u[0] <= 1 / (1 + mpmath.mpf(law.gamma) ** 2) else 1 / mpmath.mpf(law.gamma)


@pytest.mark.parametrize("law", LAWS + EXTREME, ids=lambda law: law.name)
def test_variates_agree_with_the_textbook_formula(law):
    words = np.random.default_rng(1).integers(0, 2**32, (40, law.uniforms, 2), np.uint32)
    with mpmath.workdps(80):
        exact = np.array([float(exact_variate(law, one)) for one in words])
    # A centred variate loses the digits of what is subtracted.
    lost = 1.0 / (law.shape - 1.0) if isinstance(law, CenteredPareto) else getattr(law, "excess", 0.0)
    for dtype, rtol in ((jnp.float64, 1e-14), (jnp.float32, 2e-6)):
        variates = law.transform(jnp.asarray(words), dtype)
        np.testing.assert_allclose(variates, exact, rtol=rtol, atol=lost * lost * rtol)


def test_draw_i_depends_on_key_and_i_alone():
    law, key = StudentT(3.0), jax.random.key(1)
    long = np.asarray(law.sample(key, 2.0, (3, 5), jnp.float64)).ravel()
    np.testing.assert_array_equal(law.sample(key, 2.0, (4,), jnp.float64), long[:4])
    assert float(law.sample(key, 2.0, (), jnp.float64)) == long[0]
    np.testing.assert_allclose(law.payoff(law.stream(key, jnp.float64)(jnp.arange(8)), 2.0), long[:8], rtol=1e-14)
    means = np.linspace(0.0, 1.0, 5)
    spread = law.sample(key, means, (3, 5), jnp.float64)
    np.testing.assert_allclose(spread, long.reshape(3, 5) - 2.0 + means, atol=1e-12)


@pytest.mark.parametrize("law", LAWS, ids=IDS)
def test_key_reuse_checking_is_silent(law):
    with jax.debug_key_reuse(True):
        standards(law, jax.random.key(0), 3, "float64")
        law.standard(jax.random.key(1))


def test_dtypes_are_followed_or_refused():
    law, key = StudentT(3.0), jax.random.key(0)
    assert law.standard(key).dtype == jnp.float64
    assert law.payoff(jnp.float32(1.5), np.float64(2.0)).dtype == jnp.float32
    assert float(law.payoff(1, 0.5)) == 1.5  # of an integer too
    drawn = noise.variates(law, key, jnp.float32)(jnp.arange(2))
    assert drawn.dtype == jnp.float32
    with jax.enable_x64(False):
        assert law.standard(key).dtype == jnp.float32
        with pytest.raises(ValueError, match=r"dtype must be float32 .* off .* got float64"):
            law.standard(key, jnp.float64)
        with pytest.raises(ValueError, match=r"dtype must be float32 .* off .* got float64"):
            law.sample(key, 0.0, (2,), "float64")
    for wrong in (jnp.float16, jnp.int32, "number", 3):
        with pytest.raises(ValueError, match="dtype must be float32 or float64"):
            law.standard(key, wrong)


# Moments and cdf against independent quadrature -----------------------------------------------------------------------


def log_density(law, mean, y):
    """The textbook log density of payoffs y, -inf outside the support."""
    if isinstance(law, StudentT):
        df, z = law.df, (y - mean) / law.scale
        constant = math.lgamma((df + 1.0) / 2.0) - math.lgamma(df / 2.0) - 0.5 * math.log(df * math.pi)
        with np.errstate(divide="ignore"):
            return (
                constant
                - math.log(law.scale)
                - 0.5 * (df + 1.0) * np.logaddexp(0.0, 2.0 * np.log(np.abs(z)) - math.log(df))
            )
    if isinstance(law, Gaussian):
        return -0.5 * ((y - mean) / law.scale) ** 2 - math.log(law.scale * math.sqrt(2.0 * math.pi))
    if isinstance(law, LogNormal):
        inside = np.where(y > 0.0, y, 1.0)
        z = np.log(inside / mean) / law.sigma + law.sigma / 2.0
        return np.where(y > 0.0, -0.5 * z * z - np.log(inside * law.sigma * math.sqrt(2.0 * math.pi)), -math.inf)
    if isinstance(law, (Weibull, Frechet, Burr)):
        return shifted_log_density(law, (y - mean) / law.scale + expected(law)) - math.log(law.scale)
    if isinstance(law, Pareto):
        x, scale, share = y, mean * (law.shape - 1.0) / law.shape, 1.0
    elif isinstance(law, CenteredPareto):
        x, scale, share = y - mean + law.scale * law.shape / (law.shape - 1.0), law.scale, 1.0
    else:
        x, scale, share = np.abs(y - mean), law.scale, 0.5
    inside = np.where(x >= scale, x / scale, 1.0)
    return np.where(x >= scale, math.log(share * law.shape / scale) - (law.shape + 1.0) * np.log(inside), -math.inf)


def expected(law):
    """E X of a law scale (X - E X)."""
    if isinstance(law, Burr):
        return law.d * special.beta(law.d - 1.0 / law.c, 1.0 + 1.0 / law.c)
    return special.gamma(1.0 + (1.0 if isinstance(law, Weibull) else -1.0) / law.shape)


def shifted_log_density(law, x):
    """The textbook log density of X, -inf below 0."""
    inside = np.where(x > 0.0, x, 1.0)
    log = np.log(inside)
    if isinstance(law, Burr):
        c, d = law.c, law.d
        density = math.log(c * d) + (c - 1.0) * log - (d + 1.0) * np.logaddexp(0.0, c * log)
    else:
        power = law.shape if isinstance(law, Weibull) else -law.shape
        density = math.log(law.shape) + (power - 1.0) * log - inside**power
    return np.where(x > 0.0, density, -math.inf)


def edges(law, mean):
    """Where the density jumps or turns."""
    if isinstance(law, (Weibull, Frechet, Burr)):
        start = mean - law.scale * expected(law)
        return [start + law.scale * 2.0**j for j in range(-60, 16)] + [start]
    if isinstance(law, Pareto):
        return [mean * (law.shape - 1.0) / law.shape]
    if isinstance(law, CenteredPareto):
        return [mean - law.scale / (law.shape - 1.0)]
    if isinstance(law, SymmetricPareto):
        return [mean - law.scale, mean + law.scale]
    ladder = (
        [mean + sign * law.scale * 2.0**j for j in range(-1, 24) for sign in (-1, 1)]
        if isinstance(law, StudentT)
        else []
    )
    return [0.0, mean, *ladder]


def quadrature(law, mean, order, centre, low=-math.inf, high=math.inf):
    """E|y - centre|^order 1{low < y < high} by the tanh-sinh rule over log|y - centre| on both sides of it."""
    t = np.arange(-56, 57) / 16.0
    nodes = np.tanh(0.5 * math.pi * np.sinh(t))
    weights = 0.5 * math.pi * np.cosh(t) / np.cosh(0.5 * math.pi * np.sinh(t)) ** 2 / 16.0
    spare = law.max_order - order
    reach = 40.0 if spare > 1.0 else 36.0 / spare
    total = 0.0
    for sign in (-1.0, 1.0):
        special_points = [sign * (e - centre) for e in [*edges(law, mean), low, high]]
        inner = [math.log(e) for e in special_points if 0.0 < e < math.inf]
        points = np.unique([*np.arange(-60.0, reach + 1.0, 1.0), *inner])
        half = 0.5 * np.diff(points)[:, None]
        x = points[:-1, None] + half * (1.0 + nodes)
        y = centre + sign * np.exp(x)
        values = np.exp(x * (order + 1.0) + log_density(law, mean, y)) * ((y > low) & (y < high))
        total += np.sum(half * weights * values)
    return total


CONTINUOUS = (
    StudentT(3.0),
    StudentT(2.1, scale=3.0),
    StudentT(60.0),
    Gaussian(0.7),
    Pareto(2.0),
    Pareto(1.85),
    CenteredPareto(2.2, scale=0.5),
    SymmetricPareto(1.9),
    LogNormal(0.8),
    Weibull(1.5, scale=0.7),
    Frechet(1.9),
    Burr(2.0, 1.1, scale=0.5),
)


@pytest.mark.parametrize("order", [1.0, 1.5, 1.75])
@pytest.mark.parametrize("law", CONTINUOUS, ids=lambda law: law.name)
def test_moments_against_quadrature(law, order):
    for mean in (0.3, 2.5):
        assert law.raw_moment(order, mean) == pytest.approx(quadrature(law, mean, order, 0.0), rel=1e-10)
        assert law.central_moment(order, mean) == pytest.approx(quadrature(law, mean, order, mean), rel=1e-10)


def shifted_pareto(shape, pole, order):
    """E|X - pole|^order of the Pareto law on [1, inf) by hypergeometric functions, 30 digits."""
    with mpmath.workdps(30):
        a, w, p = mpmath.mpf(shape), mpmath.mpf(pole), mpmath.mpf(order)
        if w <= 1:
            return float(a / (a - p) * mpmath.hyp2f1(-p, a - p, a - p + 1, w))
        beyond = a * w ** (p - a) * mpmath.beta(a - p, p + 1)
        below = (w - 1) ** (p + 1) / (p + 1) * mpmath.hyp2f1(a + 1, 1, p + 2, 1 - w) * a
        return float(beyond + below)


@pytest.mark.parametrize("shape", [1.02, 1.501, 2.0, 30.0])
@pytest.mark.parametrize("order", [0.5, 1.0, 1.01, 1.5, 1.9999])
def test_pareto_moments_near_the_edge(shape, order):
    if order >= shape:
        return
    centre = mpmath.mpf(shape) / (mpmath.mpf(shape) - 1)
    law = Pareto(shape)
    scale = float(1 / centre)
    assert law.central_moment(order, 2.0) == pytest.approx(
        (2 * scale) ** order * shifted_pareto(shape, centre, order), rel=1e-10
    )
    assert law.raw_moment(order, 2.0) == pytest.approx((2 * scale) ** order * shape / (shape - order), rel=1e-12)
    for mean in (-1e6, -3.0, -1e-3, 0.0, 0.5, 7.0, 1e6):
        expected = shifted_pareto(shape, centre - mean, order)
        assert CenteredPareto(shape).raw_moment(order, mean) == pytest.approx(expected, rel=1e-10)
        expected = 0.5 * (shifted_pareto(shape, mean, order) + shifted_pareto(shape, -mean, order))
        assert SymmetricPareto(shape).raw_moment(order, mean) == pytest.approx(expected, rel=1e-10)


def test_a_pareto_law_of_huge_shape_is_exponential():
    with mpmath.workdps(30):
        expected = float(mpmath.quad(lambda e: abs(e - 1) ** 1.5 * mpmath.exp(-e), [0, 1, 4, 20, 80]))
    shape = 1e9
    assert CenteredPareto(shape, scale=shape).central_moment(1.5) == pytest.approx(expected, rel=1e-8)
    assert Pareto(shape).central_moment(1.5, shape) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("mean", [1e-6, 0.1, 1.0, 12.0, 1e8])
@pytest.mark.parametrize("order", [0.5, 1.0, 1.5, 1.99, 3.7])
def test_gaussian_and_t_shifted_moments(order, mean):
    with mpmath.workdps(30):
        for scale in (1.0, 4.0):
            half = mpmath.mpf(order) / 2
            expected = (
                mpmath.mpf(scale) ** order * 2**half * mpmath.gamma(half + mpmath.mpf(1) / 2) / mpmath.sqrt(mpmath.pi)
            ) * mpmath.hyp1f1(-half, mpmath.mpf(1) / 2, -((mpmath.mpf(mean) / scale) ** 2) / 2)
            assert Gaussian(scale).raw_moment(order, -mean) == pytest.approx(float(expected), rel=1e-10)


@pytest.mark.parametrize("df", [1.06, 1.5, 2.0, 3.0, 4.0, 50.0])
@pytest.mark.parametrize("order", [0.5, 1.0, 1.5, 1.9, 3.7])
def test_t_moments_near_the_edge(df, order):
    if order >= df:
        return
    law = StudentT(df)
    for mean in (1e-6, 0.1, 1.0, 12.0, 1e5):
        assert law.raw_moment(order, -mean) == pytest.approx(quadrature(law, -mean, order, 0.0), rel=1e-10)


def test_two_point_moments_by_hand():
    law, mean = TwoPoint(8.0), 2.0  # 8 with probability 1/4
    assert law.raw_moment(1.5, mean) == pytest.approx(0.25 * 8.0**1.5, rel=1e-14)
    assert law.central_moment(1.5, mean) == pytest.approx(0.25 * 6.0**1.5 + 0.75 * 2.0**1.5, rel=1e-14)
    assert law.std(mean) == pytest.approx(math.sqrt(12.0), rel=1e-14)
    np.testing.assert_array_equal(law.cdf([-0.1, 0.0, 7.9, 8.0], mean), [0.0, 0.75, 0.75, 1.0])
    law = TwoPointNoise(3.0)  # -3 with probability 1/10, else 1/3
    assert law.raw_moment(1.5, mean) == pytest.approx(0.1 * 1.0 + 0.9 * (7.0 / 3.0) ** 1.5, rel=1e-14)
    assert law.central_moment(1.5) == pytest.approx((3.0**1.5 + 3.0**0.5) / 10.0, rel=1e-14)
    assert law.std() == pytest.approx(1.0, rel=1e-14)
    np.testing.assert_allclose(law.cdf([-1.1, -1.0, 2.3, 2.4], mean), [0.0, 0.1, 0.1, 1.0], rtol=1e-14)


def test_variances_are_the_moments_of_order_two():
    for law in (*CONTINUOUS, LogNormal(1e-4), StudentT(1e30)):
        if law.max_order <= 2.0:
            assert law.std(MEAN) == math.inf
            np.testing.assert_array_equal(law.std([0.0, 1.0]), [math.inf, math.inf])
            continue
        # The closed form of order 2 against the quadrature just beside it.
        for moment in (law.raw_moment, law.central_moment):
            beside = math.sqrt(moment(2.0 - 1e-6, MEAN) * moment(2.0 + 1e-6, MEAN))
            assert moment(2.0, MEAN) == pytest.approx(beside, rel=1e-7 if law.max_order > 2.2 else 1e-4)
        assert law.std(MEAN) == pytest.approx(math.sqrt(law.central_moment(2.0, MEAN)), rel=1e-15)
    assert StudentT(3.0).central_moment(2.0) == 3.0  # Table 1: c = 3 on S1 and S2
    assert StudentT(3.0, scale=2.0).std() == math.sqrt(12.0)


@pytest.mark.parametrize("order", [0.5, 1.5, 1.99, 20.3])
@pytest.mark.parametrize(
    "law",
    [
        *(StudentT(2.1, scale=3.0), StudentT(1.06), StudentT(60.0), StudentT(1e30), Gaussian(0.7)),
        *(CenteredPareto(2.2, scale=0.5), CenteredPareto(30.0), CenteredPareto(1e6, scale=1e6)),
        *(SymmetricPareto(1.02), SymmetricPareto(30.0), Pareto(1.85), LogNormal(0.8)),
    ],
    ids=lambda law: law.name,
)
def test_moments_at_many_means_are_those_at_each(law, order):
    if order >= law.max_order:
        return
    random = np.random.default_rng(0)
    for low, high in ((-1.0, 1.0), (0.5, 9.0), (-1e4, 1e4)):
        means = np.maximum(random.uniform(low, high, 300), law.mean_range[0])
        for moment in (law.raw_moment, law.central_moment):
            each = [moment(order, mean) for mean in means[:6]]
            np.testing.assert_allclose(moment(order, means)[:6], each, rtol=1e-12)


@pytest.mark.parametrize("law", [StudentT(3.0), Gaussian(), SymmetricPareto(1.8), Pareto(2.0), LogNormal(1.0)])
def test_moments_at_many_means_take_few_integrals(law, monkeypatch):
    integrals, integrate = [], moments.integrate
    monkeypatch.setattr(moments, "integrate", lambda *problem: integrals.append(1) or integrate(*problem))
    means = np.maximum(np.random.default_rng(0).normal(size=10_000), law.mean_range[0])
    law.raw_moment(1.5, means)
    law.central_moment(1.5, means)
    assert len(integrals) < 1000


def test_n6_a_moment_just_below_the_tail_index():
    law = Pareto(2.0)
    assert law.raw_moment(1.9, 2.0) == pytest.approx(20.0, rel=1e-14)  # scale 1 at mean 2


def test_moments_scale_and_broadcast():
    means = np.array([[0.0, 1.0], [2.0, 1.0]])
    for law in LAWS:
        for moment in (law.raw_moment, law.central_moment):
            values = moment(1.25, means)
            assert values.shape == (2, 2)
            assert values.dtype == np.float64
            assert [[moment(1.25, m) for m in row] for row in means] == values.tolist()
            assert isinstance(moment(1.25, 1.0), float)
        assert isinstance(law.std(1.0), float)
        assert law.std(means).shape == (2, 2)
        assert law.cdf(np.zeros((3, 1, 2)), means).shape == (3, 2, 2)
        assert isinstance(law.cdf(0.5, 1.0), float)


@pytest.mark.parametrize("law", [law for law in LAWS if law.max_order > 1.5], ids=lambda law: law.name)
def test_moment_bounds_are_the_largest_over_the_means(law):
    least, most = law.mean_range
    for low, high in ((-1.0, 2.5), (0.2, 0.4), (3.0, 3.0), (-9.0, 3.9)):
        low, high = max(low, least), min(high, most)
        grid = np.linspace(low, high, 101)
        raw, central = law.moment_bounds(1.4, low, high)
        assert raw == pytest.approx(np.max(law.raw_moment(1.4, grid)), rel=1e-4)
        assert central == pytest.approx(np.max(law.central_moment(1.4, grid)), rel=1e-3)
        assert raw >= np.max(law.raw_moment(1.4, grid)) * (1.0 - 1e-12)
        assert central >= np.max(law.central_moment(1.4, grid)) * (1.0 - 1e-12)


@pytest.mark.parametrize("law", CONTINUOUS, ids=lambda law: law.name)
def test_cdf_against_quadrature(law):
    for mean in (0.3, 2.5):
        for x in (-3.0, 0.2, 1.0, 2.6, 9.0):
            assert law.cdf(x, mean) == pytest.approx(quadrature(law, mean, 0.0, mean, high=x), rel=1e-9, abs=1e-12)


def test_the_t_cdf_is_exact_in_its_tails():
    for df in (1.02, 3.0, 7.5):
        for x in (-1e6, -30.0, -2.0, 0.0, 1.0):
            nu = mpmath.mpf(df)
            tail = mpmath.betainc(nu / 2, 0.5, 0, nu / (nu + mpmath.mpf(x) ** 2), regularized=True) / 2
            expected = float(tail if x <= 0 else 1 - tail)
            assert StudentT(df).cdf(x) == pytest.approx(expected, rel=1e-10)


# Errors ---------------------------------------------------------------------------------------------------------------

WRONG = [
    *(
        (StudentT, "df", value, "0.001 < df < inf")
        for value in (0, 1e-3, -1, math.nan, math.inf, "3", None, [3.0, 4.0], True)
    ),
    *(
        (law, "shape", value, "1 < shape < inf")
        for law in (Pareto, CenteredPareto, SymmetricPareto, Frechet)
        for value in (1, 0.5, -1, 0)
    ),
    (Weibull, "shape", 0.05, "0.05 < shape < inf"),
    (SymmetricStable, "alpha", 2.0, "0.5 < alpha < 2"),
    (SymmetricStable, "alpha", 0.5, "0.5 < alpha < 2"),
    (LogNormal, "sigma", 0.0, "0 < sigma < inf"),
    (Gaussian, "std", -2.0, "0 < std < inf"),
    (Gaussian, "std", 1j, "0 < std < inf"),
    (TwoPoint, "value", math.inf, "0 < value < inf"),
    (TwoPointNoise, "gamma", -0.1, "0 < gamma < inf"),
]


@pytest.mark.parametrize(("law", "field", "value", "allowed"), WRONG)
def test_n4_wrong_parameters_are_refused(law, field, value, allowed):
    with pytest.raises(ValueError, match=f"{law.__name__}: {field} must .*{allowed}") as caught:
        law(**{field: value})
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("law", [StudentT, CenteredPareto, SymmetricPareto, Weibull])
def test_scales_are_positive(law):
    for value in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="scale must satisfy 0 < scale < inf, got"):
            law(3.0, scale=value)


def test_n4_the_reason_is_the_mean():
    for build in (lambda: Pareto(1.0), lambda: Pareto(-1.0), lambda: Frechet(1.0), lambda: Burr(2.0, 0.5)):
        with pytest.raises(ValueError, match="mean does not exist"):
            build()


def test_n5_infinite_moments_are_infinite_and_a_bandit_names_the_largest_epsilon():
    for law, order, allowed in (
        (StudentT(2.0), 2.0, "0 < epsilon < 1"),
        (Pareto(1.5), 1.5, "0 < epsilon < 0.5"),
        (CenteredPareto(1.25), 2.0, "0 < epsilon < 0.25"),
        (SymmetricPareto(3.0), 3.0, "0 < epsilon <= 1"),
    ):
        for moment in (law.raw_moment, law.central_moment):
            assert moment(order, 1.0) == math.inf
            np.testing.assert_array_equal(moment(order + 0.1, [0.0, 1.0]), [math.inf, math.inf])
        assert law.moment_bounds(order, 0.0, 1.0) == (math.inf, math.inf)
        if order <= 2.0:
            with pytest.raises(ValueError, match=f"epsilon must satisfy {allowed} for {re.escape(law.name)}, .*, got "):
                lb.LinearBandit([[1.0]], [1.0], law, epsilon=order - 1.0)
        assert noise.admissible_epsilon(law) == allowed


def test_wrong_orders_and_means():
    law = StudentT(3.0)
    for order in (0.0, -1.0, math.nan, math.inf, "2", [1.0, 1.5]):
        with pytest.raises(ValueError, match="0 < order < inf"):
            law.raw_moment(order)
    with pytest.raises(ValueError, match=r"1 < order <= 3, got 1\.0"):
        TwoPoint(1.0).moment_bounds(1.0, 0.0, 1.0)
    with pytest.raises(ValueError, match="exceeds the range of float64"):
        LogNormal(50.0).raw_moment(2.0, 1.0)
    with pytest.raises(ValueError, match="exceeds the range of float64"):
        LogNormal(50.0).central_moment(1.9, 1.0)
    with pytest.raises(ValueError, match="means must be numbers, got 'large'"):
        law.cdf(0.0, "large")
    for shape in (-1, (2, -1), (2.0,), "ab", None):
        with pytest.raises(ValueError, match="shape must be a tuple of integers"):
            law.sample(jax.random.key(0), 0.0, shape)
    with pytest.raises(ValueError, match=r"mean must broadcast to shape \(\), got shape \(2,\)"):
        law.sample(jax.random.key(0), np.zeros(2))
    with pytest.raises(ValueError, match=r"mean must broadcast to shape \(1,\), got shape \(2,\)"):
        law.sample(jax.random.key(0), np.zeros(2), (1,))
    for bad, mean, allowed in (
        (Pareto(2.0), [1.0, -0.5], "0 <= mean <= inf, got -0.5"),
        (LogNormal(1.0), -1e-9, "0 <= mean <= inf, got -1e-09"),
        (TwoPoint(2.0), [[2.5]], "0 <= mean <= 2, got 2.5"),
        (Gaussian(), math.nan, "-inf <= mean <= inf, got nan"),
        (StudentT(3.0), [0.0, math.inf], "-inf <= mean <= inf, got inf"),
    ):
        for call in (
            lambda m, law=bad: law.check_means(m),
            lambda m, law=bad: law.raw_moment(1.5, m),
            lambda m, law=bad: law.central_moment(1.5, m),
            lambda m, law=bad: law.std(m),
            lambda m, law=bad: law.cdf(0.0, m),
        ):
            with pytest.raises(ValueError, match=allowed):
                call(mean)


# Subclasses -----------------------------------------------------------------------------------------------------------


class Sevens(StudentT):
    """Overrides what is documented to draw."""

    def standard(self, key, dtype=None):
        return jnp.full((), 7.0, noise.float_dtype(dtype))


class Counts(Sevens):
    """Overrides the stream below that."""

    def stream(self, key, dtype=None):
        return lambda indices: indices.astype(dtype)


class Eights(Counts):
    def standard(self, key, dtype=None):
        return jnp.full((), 8.0, noise.float_dtype(dtype))


@dataclasses.dataclass(frozen=True)
class Shifted(StudentT):
    """Overrides how words are turned into variates, with a field more."""

    shift: float = 0.0

    def transform(self, words, dtype):
        return super().transform(words, dtype) + self.shift


class Doubled(StudentT):
    def payoff(self, standard, mean):
        return 2.0 * super().payoff(standard, mean)


class Wrapper:
    """Another law's members, but for the way to draw; no base class."""

    def __init__(self, law):
        self.law = law

    def __getattr__(self, member):
        return getattr(self.law, member)

    standard = Sevens.standard


class Borrowed(Wrapper):
    standard = property(lambda self: self.law.standard)
    stream = property(lambda self: self.law.stream)


T_DRAWS = noise.variates(StudentT(3.0), jax.random.key(0), np.float64)(np.arange(3))


@pytest.mark.parametrize(
    ("law", "drawn"),
    [
        (Sevens(3.0), [7.0, 7.0, 7.0]),
        (Counts(3.0), [0.0, 1.0, 2.0]),
        (Eights(3.0), [8.0, 8.0, 8.0]),
        (Shifted(3.0, shift=2.0), T_DRAWS + 2.0),
        (Doubled(3.0), T_DRAWS),
        (Wrapper(StudentT(3.0)), [7.0, 7.0, 7.0]),
        (Borrowed(StudentT(3.0)), T_DRAWS),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "payoff") else "",
)
def test_what_a_subclass_overrides_is_drawn(law, drawn):
    key = jax.random.key(0)
    np.testing.assert_allclose(noise.variates(law, key, np.float64)(np.arange(3)), drawn, rtol=1e-14)
    if isinstance(law, StudentT):
        factor = 2.0 if isinstance(law, Doubled) else 1.0
        payoffs = factor * (1.5 + np.asarray(drawn))
        np.testing.assert_allclose(law.sample(key, 1.5, (3,), np.float64), payoffs, rtol=1e-14)


def test_a_registered_subclass_is_traced_and_any_other_a_constant():
    assert noise.traceable(StudentT(3.0))
    assert not noise.traceable(Sevens(3.0))

    @jax.tree_util.register_pytree_node_class
    @dataclasses.dataclass(frozen=True)
    class Registered(Shifted):
        def tree_flatten(self):
            return (self.df, self.scale, self.shift), None

        @classmethod
        def tree_unflatten(cls, _, leaves):
            return cls(*leaves)

    law = Registered(3.0, shift=2.0)
    assert noise.traceable(law)
    key = jax.random.key(0)
    np.testing.assert_allclose(law.sample(key, 0.0, (3,), np.float64), T_DRAWS + 2.0, rtol=1e-14)


def test_laws_of_different_classes_or_attributes_differ():
    class Extra(StudentT):
        def __init__(self, df, weight):
            super().__init__(df)
            self.weight = weight

    laws = [StudentT(3.0), Sevens(3.0), Eights(3.0), Shifted(3.0), Shifted(3.0, shift=1.0)]
    laws += [Extra(3.0, 0.1), Extra(3.0, 0.2)]
    assert len(set(laws)) == len(laws)
    assert Extra(3.0, 0.1) == Extra(3.0, 0.1)
    assert hash(Extra(3.0, 0.1)) == hash(Extra(3.0, 0.1))
    assert Sevens(3.0).name == "Sevens(3)"  # no table takes it for Student's t


# Laws as values -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", LAWS, ids=IDS)
def test_laws_are_values(law):
    clone = pickle.loads(pickle.dumps(law))
    assert clone == law
    assert hash(clone) == hash(law)
    assert eval(repr(law), vars(noise)) == law
    with pytest.raises(dataclasses.FrozenInstanceError):
        law.scale = 3.0
    assert len({law, clone, *LAWS}) == len(LAWS)


def test_equality_is_by_value_and_by_type():
    assert StudentT(3) == StudentT(np.float32(3.0)) == StudentT(jnp.asarray(3.0))
    assert hash(StudentT(3)) == hash(StudentT(3.0))
    assert StudentT(3.0) != StudentT(4.0)
    assert Pareto(2.0) != CenteredPareto(2.0)
    assert StudentT(3.0) != StudentT(3.0, scale=2.0)


def test_names():
    assert StudentT(3.0).name == "Student t(3)"
    assert Pareto(2.0).name == "Pareto(2)"
    assert CenteredPareto(1.5, scale=2.0).name == "centered Pareto(1.5, scale 2)"
    assert Gaussian(0.5).name == "Gaussian(0.5)"


@pytest.mark.parametrize("law", LAWS, ids=IDS)
def test_laws_are_pytrees(law):
    leaves, structure = jax.tree.flatten(law)
    assert all(isinstance(leaf, float) for leaf in leaves)
    assert jax.tree.unflatten(structure, leaves) == law
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(law)]
    assert paths == [f".{field.name}" for field in dataclasses.fields(law)]
    jax.tree.map(lambda _: 0, law)  # JAX may put anything into a law
    assert jax.tree.leaves(jax.tree.map(lambda _: None, law)) == []
    moved = jax.device_put(law)
    key = jax.random.key(4)
    np.testing.assert_allclose(moved.sample(key, MEAN, (5,)), law.sample(key, MEAN, (5,)), rtol=1e-14)


def test_one_compilation_serves_all_parameters():
    chex.clear_trace_counter()

    @jax.jit
    @chex.assert_max_traces(n=1)
    def draw(law, key):
        return law.payoff(law.standard(key, jnp.float64), 1.0)

    key = jax.random.key(0)
    values = [float(draw(StudentT(df), key)) for df in (1.5, 3.0, 30.0)]
    batched = jax.vmap(lambda df: StudentT(df).payoff(StudentT(df).standard(key, jnp.float64), 1.0))
    np.testing.assert_allclose(batched(jnp.asarray([1.5, 3.0, 30.0])), values, rtol=1e-13)
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *map(StudentT, (1.5, 3.0, 30.0)))
    np.testing.assert_allclose(jax.vmap(draw, (0, None))(stacked, key), values, rtol=1e-13)


def test_sampling_agrees_with_scipy_laws():
    x = np.array([-3.0, 0.4, 2.0, 8.0])
    np.testing.assert_allclose(StudentT(2.5, scale=2.0).cdf(x, 1.0), stats.t.cdf(x, 2.5, 1.0, 2.0), rtol=1e-12)
    np.testing.assert_allclose(Pareto(2.5).cdf(x, 1.0), stats.pareto.cdf(x, 2.5, scale=0.6), rtol=1e-12)
    np.testing.assert_allclose(
        LogNormal(0.5).cdf(x, 1.0), stats.lognorm.cdf(x, 0.5, scale=math.exp(-0.125)), rtol=1e-12
    )


# Stable noise


def stable_series(alpha, shift, order):
    """E|X + shift|^order of the symmetric stable law by its power series in the shift, or its inverse, 80 digits."""
    with mpmath.workdps(80):
        a, m, p = mpmath.mpf(alpha), mpmath.mpf(shift), mpmath.mpf(order)
        if alpha == 1.0:  # the harmonic function of the half-plane that is |x|^p on its edge
            return float((1 + m * m) ** (p / 2) * mpmath.cos(p * mpmath.atan(m)) / mpmath.cos(mpmath.pi * p / 2))
        if alpha < 1.0 and shift:

            def term(n):
                size = mpmath.gamma(a * n - p) / mpmath.factorial(n) * m ** (-a * n)
                return (-1) ** n * size * mpmath.cos(mpmath.pi * (a * n - p) / 2)

            factor = 2 / mpmath.pi * mpmath.gamma(1 + p) * mpmath.sin(mpmath.pi * p / 2)
            return float(m**p * (1 - factor * mpmath.fsum(term(n) for n in range(1, 600))))
        total = 2**p * mpmath.gamma((1 + p) / 2) * mpmath.gamma(1 - p / a) / mpmath.gamma(1 - p / 2)
        total /= mpmath.sqrt(mpmath.pi)
        factor = 2 / mpmath.pi * mpmath.gamma(1 + p) * mpmath.sin(mpmath.pi * p / 2)
        for k in range(1, 400):
            term = factor * (-1) ** (k + 1) * m ** (2 * k) / mpmath.factorial(2 * k) * mpmath.gamma((2 * k - p) / a) / a
            total += term
            if abs(term) < 1e-30:
                return float(total)
    raise AssertionError("the series does not end")


@pytest.mark.parametrize(
    ("alpha", "order"), [(0.8, 0.5), (1.0, 0.9), (1.3, 0.4), (1.3, 1.29), (1.7, 1.5), (1.99, 1.0), (1.99, 1.98)]
)
def test_stable_moments_against_a_series(alpha, order):
    law = SymmetricStable(alpha, scale=2.0)
    for mean in (0.0, 1e-6, 0.7, 4.0, -4.0):
        if alpha < 1.0 and mean == 1e-6:  # too many terms
            continue
        expected = 2**order * stable_series(alpha, abs(mean) / 2, order)
        assert law.raw_moment(order, mean) == pytest.approx(expected, rel=1e-11)
    assert law.central_moment(order, 5.0) == law.raw_moment(order, 0.0)
    below, above = law.raw_moment(order, [40.0 * (1 - 1e-15), 40.0])  # two formulas meet at 20 scales
    assert below == pytest.approx(above, rel=1e-12)
    if alpha == 1.99:
        assert law.raw_moment(order, 41.0) == pytest.approx(2**order * stable_series(alpha, 20.5, order), rel=1e-11)


def test_stable_tails_against_scipy_and_the_known_series():
    x = np.array([-30.0, -0.5, 0.0, 0.2, 2.0])
    np.testing.assert_allclose(SymmetricStable(1.3).cdf(x), stats.levy_stable.cdf(x, 1.3, 0.0), rtol=1e-6)
    np.testing.assert_allclose(SymmetricStable(0.8).cdf(x), stats.levy_stable.cdf(x, 0.8, 0.0), rtol=1e-9)
    np.testing.assert_allclose(SymmetricStable(1.0).cdf(x), stats.cauchy.cdf(x), rtol=1e-12)
    for alpha in (1.02, 1.5, 1.99):
        size = np.pi**-1 * special.gamma(alpha) * np.sin(0.5 * np.pi * alpha) * 1e6**-alpha
        second = np.pi**-1 * special.gamma(2 * alpha) / 2 * np.sin(np.pi * alpha) * 1e6 ** (-2 * alpha)
        assert SymmetricStable(alpha).cdf(-1e6) == pytest.approx(size - second, rel=1e-10)


def test_stable_noise_is_a_law_like_the_others():
    law = SymmetricStable(1.6, scale=0.5)
    drawn = law.sample(jax.random.key(7), MEAN, (20_000,), jnp.float64)
    assert ks_p_value(drawn, lambda x: law.cdf(x, MEAN)) > 1e-3
    assert (
        eval(repr(law), vars(noise)) == pickle.loads(pickle.dumps(law)) == jax.tree.map(lambda leaf: leaf, law) == law
    )


def test_stable_noise_has_no_moment_from_alpha_on():
    law = SymmetricStable(1.5)
    assert (law.max_order, law.std()) == (1.5, math.inf)
    assert noise.admissible_epsilon(law) == "0 < epsilon < 0.5"
    assert law.central_moment(1.5) == law.raw_moment(1.7, 2.0) == math.inf


# Laws without a mean, and one-sided laws


@pytest.mark.parametrize("law", [StudentT(0.3), StudentT(1.0), SymmetricStable(0.6), SymmetricStable(1.0)], ids=repr)
def test_a_law_without_a_mean_has_the_moments_below_its_order_alone(law):
    order = law.max_order
    for moment in (law.raw_moment, law.central_moment):
        assert 0.0 < moment(0.9 * order, 3.0) < math.inf
        for infinite in (order, 1.0, 2.0):
            assert moment(infinite, 3.0) == math.inf
            np.testing.assert_array_equal(moment(infinite, [0.0, 1.0]), [math.inf, math.inf])
    assert (law.std(1.0), noise.admissible_epsilon(law)) == (math.inf, "no epsilon")
    size = law.exceeded(0.25)
    assert law.cdf(2.0 - size, 2.0) == pytest.approx(0.125, rel=1e-9)
    words = jnp.stack([words_of(*numbers) for numbers in itertools.product(LATTICE, repeat=2)])
    for dtype in (jnp.float32, jnp.float64):
        assert np.isfinite(np.asarray(law.payoff(law.transform(words, dtype), MEAN))).all()
    drawn = law.sample(jax.random.key(7), MEAN, (20_000,), jnp.float64)
    assert ks_p_value(drawn, lambda x: law.cdf(x, MEAN)) > 1e-3


def test_the_cauchy_law_by_two_names():
    x = np.array([-1e9, -3.0, 0.2, 7.0])
    for law in (StudentT(1.0, scale=2.0), SymmetricStable(1.0, scale=2.0)):
        np.testing.assert_allclose(law.cdf(x, 1.0), stats.cauchy.cdf(x, 1.0, 2.0), rtol=1e-12)
        assert law.central_moment(0.5) == pytest.approx(2**0.5 / math.cos(math.pi / 4), rel=1e-12)
        assert law.exceeded(0.25) == pytest.approx(2.0 * math.tan(3 * math.pi / 8), rel=1e-9)


def test_a_cdf_is_right_as_far_out_as_floats_reach():
    for df in (0.002, 0.3, 1.0, 3.0):
        law, edge = StudentT(df), 1e8 * math.sqrt(df)
        x = -edge * np.array([0.5, 0.99, 1.01, 1e3])
        np.testing.assert_allclose(law.cdf(x), stats.t.cdf(x, df), rtol=1e-13)
    far = StudentT(0.002)
    assert far.cdf(-1e300) / far.cdf(-1e100) == pytest.approx(1e200**-0.002, rel=1e-12)  # a power
    assert 1.0 - far.cdf(1e300) == pytest.approx(far.cdf(-1e300), rel=1e-12)
    x = np.array([-math.inf, -1e308, 0.0, 1e308, math.inf])
    for law in (StudentT(1.0, 1e-300), Gaussian(1e-300), *map(SymmetricStable, (0.5001, 0.999, 1.0, 1.5, 1.9999))):
        np.testing.assert_allclose(law.cdf(x), [0.0, 0.0, 0.5, 1.0, 1.0], rtol=1e-12, atol=1e-150)
    assert SymmetricStable(0.6).cdf(-1e300) / SymmetricStable(0.6).cdf(-1e100) == pytest.approx(1e-120, rel=1e-9)


def test_the_size_that_noise_exceeds():
    assert Gaussian(2.0).exceeded(0.05) == pytest.approx(2.0 * stats.norm.ppf(0.975), rel=1e-12)
    assert CenteredPareto(2.5).exceeded(1e-6) == pytest.approx(stats.pareto.isf(1e-6, 2.5) - 2.5 / 1.5, rel=1e-9)
    assert Mixture([StudentT(1.0), Gaussian()], [1, 1]).exceeded(0.25) < StudentT(1.0).exceeded(0.25)
    assert Pareto(2.0).exceeded(0.25) == math.inf  # it grows with the mean
    assert StudentT(0.0011).exceeded(0.25) == math.inf  # some 10^500
    assert SymmetricStable(1.9999).exceeded(0.25) == pytest.approx(math.sqrt(2.0) * stats.norm.ppf(0.875), rel=1e-3)
    with pytest.raises(ValueError, match="probability must satisfy 0 < probability < 1, got 1.0"):
        Gaussian().exceeded(1.0)


@pytest.mark.parametrize(
    ("law", "known"),
    [
        (Weibull(0.6, scale=2.0), stats.weibull_min(0.6, scale=2.0)),
        (Weibull(3.0), stats.weibull_min(3.0)),
        (Frechet(3.5, scale=0.5), stats.invweibull(3.5, scale=0.5)),
        (Burr(2.0, 1.6), stats.burr12(2.0, 1.6)),
        (Burr(0.5, 8.0, scale=3.0), stats.burr12(0.5, 8.0, scale=3.0)),
    ],
    ids=lambda law: law.name if hasattr(law, "name") else "",
)
def test_one_sided_laws_are_scipy_s_shifted(law, known):
    shares = [1e-2, 0.1, 0.5, 0.9, 1 - 1e-9]  # payoffs near the least one keep too few digits of the share
    np.testing.assert_allclose(law.cdf(known.ppf(shares) - known.mean() + 1.0, 1.0), shares, rtol=1e-9)
    assert law.cdf(-known.mean() - 1e-9) == 0.0
    assert law.cdf(1e306) == 1.0
    assert law.cdf(5e-324, known.mean()) < 0.01  # at or just above the least payoff
    assert law.std() == pytest.approx(known.std(), rel=1e-10)
    for order in (1, 2, 3):  # about its least payoff, where a raw moment is the known law's
        assert law.raw_moment(order, known.mean()) == pytest.approx(known.moment(order), rel=1e-10)
    assert law.central_moment(2.5) < law.central_moment(2.0) ** 0.5 * law.central_moment(3.0) ** 0.5  # log-convex


@pytest.mark.parametrize("law", [Weibull(0.1), Frechet(1.02), Burr(90.0, 0.012), Burr(0.2, 6.0)], ids=repr)
def test_one_sided_moments_near_the_edge(law):
    order = 0.999 * law.max_order if law.max_order < 2.0 else 3.3
    with mpmath.workdps(30):
        p = mpmath.mpf(order)
        if isinstance(law, Burr):
            c, d = mpmath.mpf(law.c), mpmath.mpf(law.d)
            exact = d * mpmath.beta(d - p / c, 1 + p / c)
        else:
            exact = mpmath.gamma(1 + (p if isinstance(law, Weibull) else -p) / mpmath.mpf(law.shape))
    assert law.raw_moment(order, 1.0 + law.excess) == pytest.approx(float(exact), rel=1e-10)


def test_one_sided_laws_of_huge_shape_are_gumbel_s():
    for law in (Weibull(1e6, scale=1e6), Frechet(1e6, scale=1e6)):
        assert law.std() == pytest.approx(math.pi / math.sqrt(6.0), rel=1e-5)
    assert Burr(1e6, 1.0, scale=1e6).std() == pytest.approx(math.pi / math.sqrt(3.0), rel=1e-5)  # the logistic law
    with pytest.raises(ValueError, match=r"Burr: c and d must satisfy 1 < c \* d .*, got c = 2.0 and d = 0.5"):
        Burr(2.0, 0.5)


def test_a_one_sided_law_may_be_made_of_traced_numbers():
    laws = [Weibull(0.6), Frechet(1.7), Burr(2.0, 0.9)]
    traced = jax.jit(lambda: [type(law)(*map(jnp.asarray, (*[getattr(law, f) for f in law.limits],))) for law in laws])
    np.testing.assert_allclose([law.excess for law in traced()], [law.excess for law in laws], rtol=1e-12)


def test_one_program_serves_one_sided_laws_of_one_kind():
    with quickly(), programs_at_most(1):
        for law in (Weibull(0.6), Weibull(2.5, scale=3.0)):
            bandit = lb.LinearBandit([[1.0, 0.0], [0.0, 1.0]], [0.5, 0.2], law)
            policy, params = lb.make_policy("uniform", bandit, horizon=50)
            run = lb.simulate(policy, params, bandit, horizon=50, num_seeds=2, key=jax.random.key(0), trace=True)
            drawn = run.trace.payoffs[1] - bandit.means[run.trace.arms[1]]
            stream = law.stream(jax.random.fold_in(jax.random.fold_in(jax.random.key(0), 1), 0), jnp.float64)
            np.testing.assert_allclose(drawn, law.payoff(stream(jnp.arange(1, 51)), 0.0), atol=1e-11)


# Mixtures

CONTAMINATED = Mixture([Gaussian(1.0), StudentT(2.2, scale=3.0)], [9, 1])
PROPORTIONAL = Mixture([Pareto(2.5), LogNormal(0.5)], [0.25, 0.75])


@pytest.mark.parametrize("mixture", [CONTAMINATED, PROPORTIONAL], ids=lambda law: law.name)
def test_a_mixture_s_moments_and_cdf_are_weighted_sums(mixture):
    means, parts = np.array([0.5, 2.0]), list(zip(mixture.weights, mixture.laws, strict=True))
    for value in (
        lambda law: law.raw_moment(1.5, means),
        lambda law: law.central_moment(2.0, means),
        lambda law: law.cdf([0.7, 3.0], means),
        lambda law: np.array(law.moment_bounds(1.5, 0.5, 2.0)),
    ):
        np.testing.assert_allclose(value(mixture), sum(weight * value(law) for weight, law in parts), rtol=1e-14)
    assert mixture.max_order == min(law.max_order for law in mixture.laws)
    assert mixture.std(1.0) == pytest.approx(math.sqrt(mixture.central_moment(2.0, 1.0)))
    drawn = np.asarray(mixture.sample(jax.random.key(3), MEAN, (20_000,), jnp.float64))
    assert ks_p_value(drawn, lambda x: mixture.cdf(x, MEAN)) > 1e-3


def test_a_variate_of_a_mixture_is_one_of_a_part():
    words = jnp.asarray(np.random.default_rng(2).integers(0, 2**32, (2_000, 3, 2), np.uint32))
    drawn = CONTAMINATED.transform(words, jnp.float64)
    first, second = (part.payoff(part.transform(words[:, 1:], jnp.float64), 0.0) for part in CONTAMINATED.laws)
    chosen = np.asarray(noise.uniform(words[:, 0], jnp.float64)) <= 0.9
    np.testing.assert_allclose(drawn, np.where(chosen, first, second), rtol=1e-13)
    assert 0.88 < chosen.mean() < 0.92


def test_a_mixture_is_a_value():
    for mixture in (CONTAMINATED, PROPORTIONAL, Mixture([CONTAMINATED, Empirical([-1.0, 1.0])], [1, 1])):
        assert pickle.loads(pickle.dumps(mixture)) == mixture
        assert jax.tree.map(lambda leaf: leaf, mixture) == mixture
        assert hash(jax.tree.map(lambda leaf: leaf, mixture)) == hash(mixture)
        assert noise.traceable(mixture)
    assert eval(repr(CONTAMINATED), vars(noise)) == CONTAMINATED
    assert CONTAMINATED.name == "0.9 Gaussian(1) + 0.1 Student t(2.2, scale 3)"
    assert (PROPORTIONAL.mean_range, CONTAMINATED.mean_range) == ((0.0, math.inf), (-math.inf, math.inf))


def test_one_program_serves_mixtures_of_the_same_kinds():
    with programs_at_most(1):
        for weights in ([0.5, 0.5], [0.9, 0.1]):
            law = Mixture([Gaussian(0.5), SymmetricStable(1.8)], weights)
            bandit = lb.LinearBandit([[1.0, 0.0], [0.0, 1.0]], [0.5, 0.2], law, epsilon=0.5)
            policy, params = lb.make_policy("oful", bandit, horizon=64)
            result = lb.simulate(policy, params, bandit, horizon=64, num_seeds=2, key=jax.random.key(0))
            assert not result.health.any()


@pytest.mark.parametrize(
    ("laws", "weights", "message"),
    [
        ([], [], r"laws must be a list of at least one law of linbet_jax.noise, got \[\]"),
        ([Gaussian], [1.0], "laws must be a list of at least one law"),
        ([Gaussian(), Pareto(2.0)], [1, 1], r"in proportion to it as .* are, got Gaussian\(1\), Pareto\(2\)"),
        ([TwoPoint(2.0)], [1], r"in proportion to it as .* are, got two-point\(2\)"),
        ([EmpiricalPerArm([0.0, 1.0], [[1.0], [2.0]])], [1], r"are, got empirical per arm\(2\)"),
        ([Gaussian()], [1, 2], r"weights must be 1 numbers, one for each law, got \[1, 2\]"),
        ([Gaussian()], 1.0, "weights must be 1 numbers, one for each law, got 1.0"),
        ([Gaussian()], [0.0], r"weights\[0\] must satisfy 0 < weight < inf, got 0.0"),
    ],
)
def test_a_wrong_mixture_is_refused(laws, weights, message):
    with pytest.raises(ValueError, match=f"Mixture: .*{message}"):
        Mixture(laws, weights)


# A law of a quantile function of one's own


def pareto_tail(below, above):
    return above ** (-1 / 2.5)


def laplace(below, above):
    return jnp.where(below < above, jnp.log(2 * below), -jnp.log(2 * above))


def test_a_custom_law_is_what_its_quantile_function_says():
    custom, known = Custom(pareto_tail, max_order=2.5, name="mine"), CenteredPareto(2.5)
    for order in (1.0, 1.5, 2.0, 2.49):
        assert custom.central_moment(order) == pytest.approx(known.central_moment(order), rel=1e-10)
        for mean in (1.7, -30.0):
            assert custom.raw_moment(order, mean) == pytest.approx(known.raw_moment(order, mean), rel=1e-10)
    x = [-0.1, 0.0, 3.0, 1e4]
    np.testing.assert_allclose(custom.cdf(x, 0.5), known.cdf(x, 0.5), rtol=1e-12)
    words = jnp.asarray(np.random.default_rng(1).integers(0, 2**32, (40, 1, 2), np.uint32))
    for dtype, rtol in ((jnp.float64, 1e-13), (jnp.float32, 5e-6)):
        # The known law takes the probability above from the words themselves.
        np.testing.assert_allclose(custom.transform(~words, dtype), known.transform(words, dtype), rtol=rtol, atol=rtol)
    assert (custom.name, custom.max_order) == ("mine", 2.5)


def test_a_custom_law_of_two_sides():
    law = Custom(laplace, max_order=math.inf, scale=2.0)
    assert law.center == 0.0
    assert law.central_moment(1.5) == pytest.approx(2**1.5 * math.gamma(2.5), rel=1e-12)
    assert law.std() == pytest.approx(2 * math.sqrt(2), rel=1e-12)
    exact = stats.laplace.expect(lambda x: abs(x + 1.0) ** 1.5, scale=2.0)
    assert law.raw_moment(1.5, 1.0) == pytest.approx(exact, rel=1e-7)
    assert pickle.loads(pickle.dumps(law)) == law
    assert jax.tree.map(lambda leaf: leaf, law) == law
    assert law != Custom(laplace, max_order=math.inf)
    with pytest.raises(AttributeError, match="Custom is immutable: scale cannot be set"):
        law.scale = 1.0


@pytest.mark.parametrize(
    ("quantile", "options", "message"),
    [
        (laplace, {"max_order": 1.0}, "max_order must satisfy 1 < max_order < inf"),
        (laplace, {"max_order": 2.0, "scale": 0.0}, "scale must satisfy 0 < scale < inf, got 0.0"),
        (laplace, {"max_order": 2.0, "name": ""}, "name must not be empty, got ''"),
        (lambda below, above: above, {"max_order": 2.0}, "quantile must be finite and rise with `below`, got "),
        (lambda below, above: np.log(below), {"max_order": 2.0}, r"of jax.numpy \(jnp.asarray for np.asarray\)"),
        (lambda below: below, {"max_order": 2.0}, "a function of two arrays, below and above"),
        (
            lambda below, above: jnp.floor(3 * below) + 0 * above,
            {"max_order": 2.0},
            "must be smooth but for the middle",
        ),
    ],
)
def test_a_wrong_custom_law_is_refused(quantile, options, message):
    with pytest.raises(ValueError, match=f"Custom: .*{message}"):
        Custom(quantile, **options)


def test_a_custom_law_with_fewer_moments_than_it_says_is_refused():
    with pytest.raises(ValueError, match="finite moments below max_order = 9, got <function pareto_tail"):
        Custom(pareto_tail, max_order=9.0).central_moment(3.0)


# The law of a user's own numbers


RESIDUALS = np.random.default_rng(3).standard_t(2.0, size=37)


@pytest.mark.parametrize("count", [1, 2, 37, 2**16, 2**16 + 1, 2**31 - 1])
def test_a_high_product_is_that_of_whole_numbers(count):
    drawn = [0, 1, 2**16 - 1, 2**16, 2**31, 2**32 - 1, *np.random.default_rng(0).integers(0, 2**32, 200).tolist()]
    expected = [word * count >> 32 for word in drawn]
    np.testing.assert_array_equal(words.high_product(jnp.asarray(drawn, jnp.uint32), count), expected)


def test_an_empirical_law_draws_its_residuals_alike_in_both_dtypes():
    law = Empirical(RESIDUALS)
    centered = np.sort(RESIDUALS - RESIDUALS.mean())
    np.testing.assert_allclose(law.residuals, centered, atol=1e-15)
    drawn = np.asarray(law.sample(jax.random.key(0), 0.0, (37_000,), jnp.float64))
    counts = np.array([np.sum(drawn == one) for one in law.residuals])
    assert counts.sum() == drawn.size
    assert stats.chisquare(counts).pvalue > 1e-4
    single = law.sample(jax.random.key(0), 0.0, (37_000,), jnp.float32)
    np.testing.assert_array_equal(single, drawn.astype(np.float32))


def test_an_empirical_law_s_moments_are_finite_sums():
    law = Empirical(RESIDUALS)
    means = np.array([[0.0, -2.0], [1e3, 0.3]])
    for order in (1.2, 2.0, 5.5):
        raw = np.mean(np.abs(means[..., None] + law.residuals) ** order, axis=-1)
        np.testing.assert_allclose(law.raw_moment(order, means), raw, rtol=1e-13)
        assert law.central_moment(order, 7.0) == pytest.approx(raw[0, 0], rel=1e-13)
    assert law.std() == pytest.approx(np.std(RESIDUALS), rel=1e-13)
    assert law.max_order == math.inf
    assert law.moment_bounds(1.5, -1.0, 2.0)[0] == law.raw_moment(1.5, 2.0)
    place = float(law.residuals[10])
    assert law.cdf(place + 4.0, 4.0) == 11 / 37
    assert law.cdf(np.nextafter(place, -1e9)) == 10 / 37


def test_an_empirical_law_is_a_value():
    law, other = Empirical(RESIDUALS), Empirical(list(RESIDUALS[::-1]))
    assert law == other
    assert hash(law) == hash(other)
    assert law != Empirical(RESIDUALS * 2)
    assert law != StudentT(3.0)
    assert repr(law) == repr(other) != repr(Empirical(RESIDUALS * 2))
    assert law.name == "empirical(37)"
    assert pickle.loads(pickle.dumps(law)) == law
    assert jax.tree.map(lambda leaf: leaf, law) == law
    with pytest.raises((AttributeError, ValueError)):
        law.residuals = RESIDUALS
    for one in (law, pickle.loads(pickle.dumps(law)), copy.deepcopy(law)):
        with pytest.raises(ValueError, match="read-only"):
            one.residuals[0] = 1.0

    class Doubled(Empirical):
        def transform(self, words, dtype):
            return 2 * super().transform(words, dtype)

    assert Doubled(RESIDUALS).name == "Doubled(37)"


def test_one_program_serves_empirical_laws_of_as_many_residuals():
    with programs_at_most(1):
        for factor in (1.0, 3.0):
            bandit = lb.LinearBandit([[1.0, 0.0], [0.0, 1.0]], [0.5, 0.2], Empirical(factor * RESIDUALS))
            policy, params = lb.make_policy("oful", bandit, horizon=300)
            result = lb.simulate(
                policy, params, bandit, horizon=300, num_seeds=2, key=jax.random.key(0), trace=True, dtype="float64"
            )
            noise = result.trace.payoffs - bandit.means[result.trace.arms]
            nearest = np.abs(noise[..., None] - bandit.noise.residuals).min(axis=-1)
            assert nearest.max() < 1e-13 * factor


@pytest.mark.parametrize(
    ("residuals", "message"),
    [
        ([], r"at least one number, got shape \(0,\)"),
        ([[1.0], [2.0]], r"got shape \(2, 1\)"),
        ([1.0, float("nan")], "must be finite, got nan at index 1"),
        (["a"], "must be real numbers, got list"),
        (["1.5", "2"], "must be real numbers, got list"),
        ([1j, 2.0], "must be real numbers, got list"),
        (np.array(["1", 2.0], object), "must be real numbers, got ndarray"),
        (np.array(["NaT", 5], "m8[D]"), "must be real numbers, got ndarray"),
        (np.ma.array([1.0, 2.0], mask=[False, True]), "must be real numbers, got MaskedArray"),
        ([10**400], "must be real numbers, got list"),
        ([1e308, 1.7e308, 1.7e308], "must be smaller"),
    ],
)
def test_residuals_that_make_no_law_are_refused(residuals, message):
    with pytest.raises(ValueError, match=message):
        Empirical(residuals)


@pytest.mark.parametrize(
    ("law", "symmetric"),
    [
        (SymmetricStable(1.5), True),
        (CONTAMINATED, True),
        (Mixture([Gaussian(1.0), CenteredPareto(2.5)], [1, 1]), None),
        (Empirical([-1.0, 0.0, 1.0]), True),
        (Empirical([-1.0, -1.0, 2.0]), False),
        (Custom(laplace, max_order=math.inf), None),
        (CenteredPareto(2.0), False),
    ],
)
def test_a_law_says_whether_it_is_symmetric_where_it_knows(law, symmetric):
    assert law.symmetric is symmetric
