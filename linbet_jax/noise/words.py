"""Random words and what is made of them: uniforms, exponentials, sines, normal and Student t variates.

All randomness is 32-bit words, two for each uniform, whatever the dtype: float32 and float64 see the same draw up to
rounding. U = (64-bit word + 1/2) / 2^64 is never 0, 1 - U is taken from the complemented word, and -log U comes from
the smaller of the two: both ends keep their full relative precision in float32 too (a 23-bit uniform would cut a
Pareto tail at 2^(23/shape)). No sampler has a loop.

References:
    Salmon, Moraes, Dror, Shaw. Parallel random numbers: as easy as 1, 2, 3. SC 2011.
    Bailey. Polar generation of random variates with the t-distribution. Mathematics of Computation, 1994.
    Chambers, Mallows, Stuck. A method for simulating stable random variables. JASA 71, 1976.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.typing import ArrayLike, DTypeLike

Words = tuple[jax.Array, jax.Array]
_PARITY = np.uint32(0x1BD11BDA)
_TURNS = (13, 15, 26, 6), (17, 29, 16, 24)  # Threefry's rotations, in turn


def float_dtype(dtype: DTypeLike | None = None) -> np.dtype[Any]:
    """Returns the float dtype to compute in: JAX's own default for None.

    Raises:
        ValueError: for anything but float32 and float64, and for float64 while JAX's 64-bit types are off (JAX would
            silently compute in float32).
    """
    if dtype is None:
        return np.dtype(jax.dtypes.canonicalize_dtype(float))
    try:
        wanted = np.dtype(dtype)
    except TypeError:
        wanted = np.dtype(object)
    if wanted not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"dtype must be float32 or float64, got {dtype!r}")
    if jax.dtypes.canonicalize_dtype(wanted) != wanted:
        raise ValueError("dtype must be float32 while JAX's 64-bit types are off (jax_enable_x64), got float64")
    return wanted


def uniform(words: jax.Array, dtype: DTypeLike) -> jax.Array:
    """Turns 32-bit words [..., 2], high and low, into uniforms [...]: (64-bit word + 1/2) / 2^64 rounded to dtype.

    They are never 0; the largest ones round to 1.
    """
    high, low = words[..., 0].astype(dtype), words[..., 1].astype(dtype)
    return high * 2.0**-32 + (low + 0.5) * 2.0**-64


def high_product(words: jax.Array, count: int) -> jax.Array:
    """floor(word * count / 2^32) of 32-bit words, elementwise: whole numbers from 0 to count - 1, count below 2^32.

    In four products of 16 bits each, since 64-bit integers need ``jax_enable_x64``.
    """
    high, low = words >> np.uint32(16), words & np.uint32(0xFFFF)
    count_high, count_low = np.uint32(count >> 16), np.uint32(count & 0xFFFF)
    middle = high * count_low + ((low * count_low) >> np.uint32(16))
    carry = (middle & np.uint32(0xFFFF)) + low * count_high
    return high * count_high + (middle >> np.uint32(16)) + (carry >> np.uint32(16))


def exponential(words: jax.Array, dtype: DTypeLike) -> jax.Array:
    """Turns 32-bit words [..., 2] into standard exponentials -log U [...], between 2^-65 and 65 log 2.

    Full relative precision at both ends: log(2^n U) is the series of 2 artanh(f / (2 + f)) in f = 2^n U - 1, with n so
    that 2^n U lies between sqrt(1/2) and sqrt(2); for n = 0 -f is 1 - U, taken from ~words. One series serves all.
    """
    near = words[..., 0] >= np.uint32(math.isqrt(2**63))  # U >= sqrt(1/2), to 32 bits
    value = uniform(jnp.where(near[..., None], ~words, words), dtype)
    width, mantissa = (jnp.uint64, 52) if np.dtype(dtype) == np.float64 else (jnp.uint32, 23)
    bits = jax.lax.bitcast_convert_type(value, width)
    doublings = (jax.lax.bitcast_convert_type(jnp.asarray(math.sqrt(2.0), dtype), width) - bits) >> mantissa
    scaled = jax.lax.bitcast_convert_type(bits + (doublings << mantissa), jnp.dtype(dtype))
    offset = jnp.where(near, -value, scaled - 1.0)
    ratio = offset / (2.0 + offset)
    square = ratio * ratio
    series = _series(square, [1.0 / (2 * k + 1) for k in range(10 if mantissa == 52 else 5)])
    whole = jnp.where(near, 0.0, doublings.astype(jnp.int32).astype(dtype)) * math.log(2.0)
    return whole - 2.0 * ratio * series


def expm1(z: jax.Array) -> jax.Array:
    """exp(z) - 1 for z from 0 to 88, elementwise, with full relative precision: 2^k (exp(r) - 1) + (2^k - 1).

    r = z - k log 2 is within half of log 2, where the series of exp(r) - 1 is short. For larger z (354 in float64) k
    stops at 127 (510): the value is finite, and in float64 so is its square.
    """
    double = z.dtype == jnp.float64
    high = 0.693147180369123816490 if double else 0.693359375  # of log 2, with zeros at its end: k * high is exact
    count = jnp.round(z * (1.0 / math.log(2.0)))
    rest = (z - count * high) - count * (math.log(2.0) - high if not double else 1.90821492927058770002e-10)
    series = _series(rest, [1.0 / math.factorial(k) for k in range(1, 14 if double else 8)])
    exponent = jnp.minimum(count.astype(jnp.int32), 510 if double else 127)
    if double:
        power = jax.lax.bitcast_convert_type((exponent + 1023).astype(jnp.uint64) << 52, jnp.float64)
    else:
        power = jax.lax.bitcast_convert_type((exponent + 127) << 23, jnp.float32)
    return power * (series * rest) + (power - 1.0)


def half_turn(words: jax.Array, dtype: DTypeLike) -> jax.Array:
    """Turns 32-bit words [..., 2] into sines [...] of an angle that is uniform on (-pi/2, pi/2).

    The law is that of the cosine of a uniform angle on the circle, and a cosine near 0 keeps its relative precision.
    The sine is its Taylor polynomial of degree 21, exact to rounding there: no argument has to be reduced.
    """
    signed = jax.lax.bitcast_convert_type(words[..., 0] ^ np.uint32(2**31), jnp.int32).astype(dtype)
    low = words[..., 1].astype(dtype)
    return _sine(jnp.pi * (signed * 2.0**-32 + (low + 0.5) * 2.0**-64))


def _sine(angle: jax.Array) -> jax.Array:
    """sin(angle) for angles from -pi/2 to pi/2, elementwise."""
    square = angle * angle
    return angle * _series(square, [(-1.0) ** k / math.factorial(2 * k + 1) for k in range(11)])


def _series(x: jax.Array, coefficients: list[float]) -> jax.Array:
    """The polynomial with these coefficients, of x^0 first."""
    value = jnp.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = value * x + coefficient
    return value


def polar(words: jax.Array, df: ArrayLike | None, dtype: DTypeLike) -> jax.Array:
    """Student t variates [...] from words [..., 2, 2] of two uniforms (Bailey 1994); normal ones for df=None.

    Bailey's sqrt(df (U^(-2/df) - 1)) cos(2 pi V) is sqrt(df h (h + 2)) cos(2 pi V) with h = exp(-log(U) / df) - 1,
    which does not cancel. From 10^17 degrees of freedom on the law is the normal one to rounding.
    """
    first, second = jnp.unstack(words, axis=-2)
    energy, cosine = exponential(first, dtype), half_turn(second, dtype)
    if df is None:
        return jnp.sqrt(2.0 * energy) * cosine
    degrees = jnp.minimum(jnp.asarray(df, dtype), 1e17)
    excess = expm1(energy * (1.0 / degrees))
    if np.dtype(dtype) == np.float64:
        return jnp.sqrt(degrees * excess * (excess + 2.0)) * cosine
    return jnp.sqrt(degrees * excess) * jnp.sqrt(excess + 2.0) * cosine  # the product could overflow


def normals(key: jax.Array, count: int, dtype: DTypeLike) -> jax.Array:
    """Independent standard normal numbers [count] under one key, two for each block of random words (Box and Muller).

    For small counts that are drawn anew at every pull: each uniform has one word of 32 bits, so that no number lies
    beyond 6.8, and they are worked out in float32, whatever the dtype: float32 and float64 see the same numbers.
    """
    pairs = -(-count // 2)
    if jax.random.key_impl(key) == "threefry2x32":
        data = jax.random.key_data(key)
        left, right = threefry(data[0], data[1], jnp.arange(pairs, dtype=jnp.uint32))
    else:
        left, right = jax.random.bits(key, (2, pairs), jnp.uint32)

    def part(number: Any, left: jax.Array, right: jax.Array) -> jax.Array:
        """The cosines or the sines."""
        size = jnp.sqrt(-2.0 * jnp.log(left.astype(jnp.float32) * 2.0**-32 + 2.0**-33))
        signed = jax.lax.bitcast_convert_type(right, jnp.int32).astype(jnp.float32)
        sine = _sine(signed * (math.pi * 2.0**-32))  # of half the angle
        square = jnp.minimum(sine * sine, 1.0)  # which rounding may exceed
        return size * jnp.where(number == 0, 1.0 - 2.0 * square, 2.0 * sine * jnp.sqrt(1.0 - square))

    both = jax.lax.platform_dependent(
        left,
        right,
        # On CPU a turn of a loop stores them, where XLA would compute each wherever it is used.
        cpu=lambda left, right: jax.lax.map(lambda number: part(number, left, right), jnp.arange(2)),
        default=lambda left, right: jnp.stack([part(number, left, right) for number in range(2)]),
    )
    return both.reshape(-1)[:count].astype(dtype)


def pareto(words: jax.Array, shape: ArrayLike, dtype: DTypeLike) -> jax.Array:
    """Pareto variates U^(-1/shape) >= 1 from words [..., 2]."""
    return jnp.exp(exponential(words, dtype) / jnp.asarray(shape, dtype))


def signed(words: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Words [..., 2] as a fair coin [...] (the top bit) and words [..., 2] of the other 63 bits."""
    high, low = words[..., 0], words[..., 1]
    return high >> 31 == 1, jnp.stack([(high << 1) | (low >> 31), low << 1], -1)


def stable(words: jax.Array, alpha: ArrayLike, dtype: DTypeLike) -> jax.Array:
    """Symmetric stable variates [...], E exp(itX) = exp(-|t|^alpha), from words [..., 2, 2] (Chambers et al. 1976).

    With V uniform on (-pi/2, pi/2), W exponential and C = cos((1 - alpha) V):
    X = sin(alpha V) / cos(V)^(1/alpha) * (W / C)^((alpha - 1)/alpha), for 1/2 < alpha < 2. V is taken from the end
    that is nearer, where cos(V), C and sin(alpha V) have zeros: tails keep their relative precision in float32 too.
    Below alpha = 0.7 they may pass what float32 holds, and end there.
    """
    first, second = jnp.unstack(words, axis=-2)
    positive, rest = signed(first)
    alpha = jnp.asarray(alpha, dtype)
    end, angle = (0.5 * jnp.pi * uniform(part, dtype) for part in (rest, ~rest))  # they add up to pi/2
    spare, bend = 0.5 * jnp.pi * (2.0 - alpha), jnp.abs(alpha - 1.0)
    numerator = _sine(jnp.minimum(alpha * angle, spare + alpha * end))  # sin z = sin(pi - z)
    waited = exponential(second, dtype) / _sine(jnp.minimum(0.5 * jnp.pi * (1.0 - bend) + bend * end, 0.5 * jnp.pi))
    size = numerator * _sine(end) ** (-1.0 / alpha) * waited ** ((alpha - 1.0) / alpha)
    size = jnp.minimum(size, 0.25 * float(jnp.finfo(dtype).max))
    return jnp.where(positive, size, -size)


def stream_words(key: jax.Array, uniforms: int, first: int = 0) -> Callable[[jax.Array], jax.Array]:
    """Random words as a function of an index: the words of index i depend on (key, i) alone, a key of any generator.

    Indices [n] give words [n, uniforms, 2] uint32: for uniform u, counted from `first`, the first two words of
    ``key_data(fold_in(fold_in(key, u), i))``. For JAX's default generator that is one Threefry block each, which is
    computed here without a loop: on CPU ``fold_in`` is a rolled one, several times slower.
    """
    own = [jax.random.key_data(jax.random.fold_in(key, u)) for u in range(first, first + uniforms)]
    if jax.random.key_impl(key) == "threefry2x32":

        def blocks(indices: jax.Array) -> jax.Array:
            counts = indices.astype(jnp.uint32)
            return jnp.stack([jnp.stack(threefry(data[0], data[1], counts), -1) for data in own], -2)

        return blocks
    keys = [jax.random.wrap_key_data(data, impl=jax.random.key_impl(key)) for data in own]

    def folded(indices: jax.Array) -> jax.Array:
        fold = jax.vmap(jax.random.fold_in, in_axes=(None, 0))
        return jnp.stack([jax.random.key_data(fold(one, indices))[:, :2] for one in keys], -2)

    return folded


def threefry(first: jax.Array, second: jax.Array, counts: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror, Shaw 2011) of the blocks (0, count); uint32, elementwise.

    On CPU sixteen of the rounds are two turns of a loop: its results are stored, where XLA would compute the words anew
    inside each of their uses. On a GPU each turn would be kernels of its own, and the rounds are written out.
    """

    def pair(number: jax.Array, words: Words, schedule: Any) -> Words:
        for part in range(2):
            place = jnp.asarray(2 * number + part)  # without jit it is no array
            words = _four_rounds(words, _TURNS[part], schedule[(place + 1) % 3], schedule[(place + 2) % 3], place)
        return words

    def rolled(words: Words, keys: tuple[jax.Array, ...]) -> Words:
        schedule = jnp.stack(keys)
        words = jax.lax.fori_loop(np.int32(0), np.int32(2), lambda i, words: pair(i, words, schedule), words)
        return _four_rounds(words, _TURNS[0], keys[2], keys[0], np.uint32(4))

    start = jnp.broadcast_to(first, counts.shape), counts + second
    keys = first, second, first ^ second ^ _PARITY
    return jax.lax.platform_dependent(start, keys, cpu=rolled, default=_twenty_rounds)


def threefry_on_host(key: npt.NDArray[np.uint32], counts: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """The same in NumPy, for host code that must not start JAX: key [2], counts [n] -> words [2, n]."""
    first, second = key[:1], key[1:]
    start = np.broadcast_to(first, counts.shape), counts + second
    return np.stack(_twenty_rounds(start, (first, second, first ^ second ^ _PARITY)))


def _twenty_rounds(words: Any, keys: Any) -> Any:
    """Threefry's rounds, written out; of JAX or NumPy arrays."""
    for place in range(5):
        turns = _TURNS[place % 2]
        words = _four_rounds(words, turns, keys[(place + 1) % 3], keys[(place + 2) % 3], np.uint32(place))
    return words


def _four_rounds(words: Any, turns: tuple[int, ...], first: Any, second: Any, place: Any) -> Any:
    """Rounds 4 place + 1 to 4 place + 4, and the keys that are added after them."""
    left, right = words
    for turn in turns:
        left = left + right
        right = ((right << np.uint32(turn)) | (right >> np.uint32(32 - turn))) ^ left
    return left + first, right + second + place.astype(np.uint32) + np.uint32(1)
