"""Medians: of means of payoffs (MoM), and among k estimates of one parameter (MENU)."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from linbet_jax.kernels.arguments import floats
from linbet_jax.kernels.gram import UNROLLED, cholesky, dot

_SAMPLE = 16  # estimates among which the origin of the coordinates is found
_STEPS = 3  # of the search for the middle of the bulk
_FEW = 4  # estimates left over that are cheaper to decide one by one
_ROUND = 4  # estimates whose medians a GPU finds together
_ROWS = 8  # rows of distances that share one pass over the coordinates


@functools.partial(jax.jit, static_argnames=("num_blocks",))
def median_of_means(payoffs: jax.Array, num_blocks: int) -> jax.Array:
    """The median of the means of consecutive blocks of equal length (Medina and Yang 2016).

    Args:
        payoffs: [r].
        num_blocks: q, 1 <= q <= r. Blocks hold floor(r / q) payoffs; those beyond q floor(r / q) are left out.

    Returns:
        [], the median; for an even q the mean of the two middle values. A mean that is NaN counts as the largest: the
        median is NaN where one in the middle is. Its derivative is that of the block or blocks in the middle.

    Raises:
        ValueError: if ``num_blocks`` is not in 1..r, or ``payoffs`` no array of float32 or float64.
    """
    (payoffs,) = floats(payoffs=payoffs)
    if payoffs.ndim != 1:
        raise ValueError(f"payoffs {payoffs.shape}: expected [r]")
    pulls = payoffs.shape[0]
    if not 1 <= num_blocks <= pulls:
        raise ValueError(f"num_blocks={num_blocks}: must be from 1 to the number of payoffs, {pulls}")
    length = pulls // num_blocks
    means = jnp.mean(payoffs[: num_blocks * length].reshape(num_blocks, length), axis=1)
    return _median(means, num_blocks)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _median(values: jax.Array, count: int) -> jax.Array:
    low, high = _middle(values, count)
    return jnp.where(low == high, low, 0.5 * low + 0.5 * high)  # no difference: infinite ones have none


@_median.defjvp
def _median_jvp(count: int, primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    """The median moves as the values in the middle do; they are found in their bits, which have no derivative."""
    (values,), (rates,) = primals, tangents
    low, high = _middle(values, count)
    moved = 0.5 * rates[jnp.argmax(values == low)] + 0.5 * rates[jnp.argmax(values == high)]
    median = _median(values, count)
    return median, jnp.where(jnp.isnan(median), median * moved, moved)


@jax.jit
def median_center(estimates: jax.Array, gram: jax.Array) -> tuple[jax.Array, jax.Array]:
    """MENU's median of means among k estimates (Algorithm 1, lines 8-9).

    r_j is the median over s != j of ``||theta_j - theta_s||_V`` (an even count takes the mean of the two middle
    values); the estimate of the smallest r_j wins, the lowest index on ties.

    Only the smallest r_j matters, so few of the k medians are computed. The estimate nearest to the middle of the bulk
    is usually the best or among the best: its exact median bounds the answer. One counting pass over all pairs, in
    float32 with a margin for its rounding, rejects every estimate with too few others within that bound; the few that
    are left are decided by their exact medians.

    Args:
        estimates: [k, d].
        gram: [d, d], V.

    Returns:
        (index [] int32, radius []): k* and r_{k*}. For k = 1 the radius is 0. An estimate that is not finite counts as
        infinitely far from the others; where V or every estimate is not finite the radius is NaN. The radius has
        derivatives (the index has none: use ``jax.grad(..., has_aux=True)`` or take the radius alone).
    """
    estimates, gram = floats(estimates=estimates, gram=gram)
    if estimates.ndim != 2 or gram.shape != (estimates.shape[1],) * 2:
        raise ValueError(f"estimates {estimates.shape}, gram {gram.shape}: expected [k, d], [d, d]")
    if estimates.shape[0] == 1:
        return jnp.zeros((), jnp.int32), jnp.zeros((), estimates.dtype)
    return _found_center(estimates, gram)


@jax.custom_jvp
def _found_center(estimates: jax.Array, gram: jax.Array) -> tuple[jax.Array, jax.Array]:
    # On CPU a batch is worked off problem by problem, row by row: the coordinates stay in the first cache. On a GPU all
    # problems go through a loop together until the last of them is done: its turns must be few.
    return jax.lax.platform_dependent(estimates, gram, cpu=_center_in_turn, default=_center_in_rounds)


@_found_center.defjvp
def _center_jvp(primals: Any, tangents: Any) -> Any:
    """The radius moves as the distances in the middle of the chosen row do."""
    index, radius = _found_center(*primals)
    _, moved = jax.jvp(lambda estimates, gram: _radius_of(index, estimates, gram), primals, tangents)
    return (index, radius), (np.zeros(np.shape(index), jax.dtypes.float0), moved)


def _radius_of(index: jax.Array, estimates: jax.Array, gram: jax.Array) -> jax.Array:
    """r_j of one estimate by its definition: index [], estimates [k, d], gram [d, d] -> []."""
    num = estimates.shape[0]
    differences = estimates - estimates[index]
    squared = jnp.einsum("sd,de,se->s", differences, gram, differences)
    of_others = jnp.sort(jnp.where(jnp.arange(num) == index, -jnp.inf, squared))[1:]
    middle = jnp.stack([of_others[(num - 2) // 2], of_others[(num - 1) // 2]])
    # The root has no derivative at 0, where two estimates are equal: 0 is put there.
    return jnp.mean(jnp.where(middle > 0, jnp.sqrt(jnp.where(middle > 0, middle, 1)), 0))


class _Search(NamedTuple):
    """The best estimate so far and its median, those that may be better [k], and how many are near each [k]."""

    best: jax.Array
    bound: jax.Array
    left: jax.Array
    counts: jax.Array


def _center_one_by_one(estimates: jax.Array, gram: jax.Array) -> tuple[jax.Array, jax.Array]:
    """One candidate after the other, and the others counted anew where a better bound repays it."""
    num = estimates.shape[0]
    rows = jnp.arange(num, dtype=jnp.int32)
    slack = 8 * float(np.finfo(estimates.dtype).eps)
    points, origin = _whitened(estimates, gram)

    def squared_distances(row: jax.Array) -> jax.Array:
        differences = points - points[:, row, None]
        return jnp.sum(differences * differences, axis=0)

    def others_within(bound: jax.Array) -> jax.Array:
        return _near_by_rows((points / bound).astype(jnp.float32), 1 + slack)

    def step(carry: _Search) -> _Search:
        # The one with the most others near it.
        row = jnp.argmax(jnp.where(carry.left, carry.counts, -1)).astype(jnp.int32)
        median = _median_distance(squared_distances(row), row)
        better = median < carry.bound * (1 - slack)
        tie = ~better & (median <= carry.bound * (1 + slack)) & (row < carry.best)
        bound = jnp.where(better, median, carry.bound)
        left = carry.left & (rows != row) & (bound > 0)
        # A better bound rejects more: another pass repays itself where many are left.
        again = better & (jnp.sum(left) > _FEW)
        counts = jax.lax.cond(again, lambda: others_within(bound), lambda: carry.counts)
        return _Search(jnp.where(better | tie, row, carry.best), bound, left & (counts >= _needed(num)), counts)

    from_middle, there = _from_middle(points)
    first = jnp.where(there, jnp.argmin(from_middle), origin).astype(jnp.int32)
    counts = jnp.int32(num) + (rows == first)  # so that the search begins with `first`
    start = _Search(first, jnp.full_like(from_middle[0], jnp.inf), rows >= 0, counts)
    found = jax.lax.while_loop(lambda carry: jnp.any(carry.left), step, start)
    return _answer(found, points, origin)


_center_in_turn = jax.custom_batching.sequential_vmap(_center_one_by_one)


def _center_in_rounds(estimates: jax.Array, gram: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Several candidates in a round, and after each round the others counted anew."""
    num = estimates.shape[0]
    rows = jnp.arange(num, dtype=jnp.int32)
    slack = 8 * float(np.finfo(estimates.dtype).eps)
    points, origin = _whitened(estimates, gram)

    def squared_distances(some: jax.Array) -> jax.Array:  # [m] -> [m, k]
        differences = points[:, None, :] - points[:, some][:, :, None]
        return jnp.sum(differences * differences, axis=0)

    def decide(carry: _Search, order: jax.Array) -> _Search:
        """The first few in this order decided, and those rejected that are no better than the best of them."""
        _, sorted_rows = jax.lax.sort((order, rows), num_keys=1, is_stable=False)
        some = sorted_rows[:_ROUND]
        medians = jax.vmap(_median_distance)(squared_distances(some), some)
        medians = jnp.where(carry.left[some], medians, jnp.inf)
        bound = jnp.minimum(carry.bound, jnp.min(medians))
        # Of all within rounding of the best the lowest, the best so far among them.
        rivals = jnp.append(some, carry.best), jnp.append(medians, carry.bound)
        best = jnp.min(jnp.where(rivals[1] <= bound * (1 + slack), rivals[0], num))
        left = carry.left & ~jnp.any(rows[:, None] == some, axis=1)
        counts = _near_at_once([(row / bound).astype(jnp.float32) for row in points], 1 + slack)
        return _Search(best, bound, left & (bound > 0) & (counts >= _needed(num)), counts)

    from_middle, there = _from_middle(points)
    first = jnp.where(there, jnp.argmin(from_middle), origin).astype(jnp.int32)
    start = _Search(first, jnp.full_like(from_middle[0], jnp.inf), rows >= 0, jnp.zeros_like(rows))
    found = jax.lax.while_loop(
        lambda carry: jnp.any(carry.left),
        lambda carry: decide(carry, jnp.where(carry.left, -carry.counts, num)),
        decide(start, from_middle),
    )
    return _answer(found, points, origin)


def _needed(num: int) -> int:
    """Row j can have r_j <= bound only if the lower middle value is: (k - 1 + 1) // 2 others at most that far."""
    return num // 2


def _answer(found: _Search, points: jax.Array, origin: jax.Array) -> tuple[jax.Array, jax.Array]:
    # A radius of 0 is a majority of equal estimates, and two majorities have one in common. A difference might be made
    # anew of unrounded points, and be 0 nowhere.
    equal = jnp.argmax(jnp.all(points == points[:, found.best, None], axis=0))
    best = jnp.where(found.bound == 0, equal, found.best)
    of_itself = jnp.sum(points[:, origin])  # 0, or no number where V has no root or no estimate is finite
    return best.astype(jnp.int32), jnp.where(of_itself == 0, found.bound, of_itself - of_itself)


def _whitened(estimates: jax.Array, gram: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Coordinates [d, k] in which ||.||_V is the Euclidean norm, about an estimate of the bulk, and its index.

    Taken relative to the bulk, differences of the many lose no digits to an outlier.
    """
    few = estimates[: min(_SAMPLE, estimates.shape[0])]
    differences = few[:, None, :] - few[None, :, :]
    squared = jnp.sum(differences * differences, axis=-1)
    middle = jax.vmap(lambda row: _smallest_with(row, few.shape[0] // 2 + 1))(squared)
    origin = jnp.argmin(middle)
    finite = jnp.all(jnp.isfinite(estimates), axis=1)
    origin = jnp.where(finite[origin], origin, jnp.argmax(finite))
    return dot(cholesky(gram).T, (estimates - estimates[origin]).T), origin


def _smallest_with(values: jax.Array, rank: int) -> jax.Array:
    """The value of this rank (from 1) in a short list [n], by n^2 comparisons; infinite where NaN stands in its way."""
    at_most = jnp.sum(values[None, :] <= values[:, None], axis=1)
    return jnp.min(jnp.where(at_most >= rank, values, jnp.inf))


def _from_middle(points: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Squared distances [k] from the weighted mean of all, weights falling like 1 / (1 + distance^2): points [d, k].

    They are never NaN. And whether there is such a mean [].
    """
    few = min(_SAMPLE, points.shape[1])
    squared = jnp.sum(points * points, axis=0)
    scale = _smallest_with(squared[:few], few // 2 + 1)
    for _ in range(_STEPS):
        weights = jnp.where(squared < jnp.inf, 1 / (squared + scale), 0)
        total = jnp.sum(weights)
        middle = jnp.sum(jnp.where(weights > 0, weights * points, 0), axis=1) / total
        differences = points - middle[:, None]
        squared = jnp.sum(differences * differences, axis=0)
    return jnp.where(jnp.isnan(squared), jnp.inf, squared), jnp.isfinite(total) & (total > 0)


def _median_distance(squared: jax.Array, own: jax.Array) -> jax.Array:
    """Median of the distances from squared ones [k], that from estimate ``own`` to itself left out."""
    others = squared.shape[0] - 1
    far = jnp.isnan(squared) | (jnp.arange(others + 1) == own)
    low, high = _middle(jnp.where(far, jnp.inf, squared), others)
    return 0.5 * (jnp.sqrt(low) + jnp.sqrt(high))


def _middle(values: jax.Array, count: int) -> tuple[jax.Array, jax.Array]:
    """The two middle values of the ``count`` smallest in a list [n]; twice the same for an odd count. NaN is last."""
    return jax.lax.platform_dependent(
        values,
        cpu=functools.partial(_middle_by_bits, count=count),
        default=functools.partial(_middle_by_sort, count=count),
    )


def _middle_by_sort(values: jax.Array, count: int) -> tuple[jax.Array, jax.Array]:
    """By one sort, which is one kernel on a GPU; there a loop over bits would be a kernel or two for each of them."""
    ordered = jnp.sort(jnp.where(values == 0, 0, values), stable=False)  # one zero
    return ordered[(count - 1) // 2], ordered[count // 2]


def _middle_by_bits(values: jax.Array, count: int) -> tuple[jax.Array, jax.Array]:
    """By counting, bit by bit.

    Floats are ordered as their bits are, once those of negative ones are turned over: the lower of the two is found bit
    by bit from the top, each by one count. For the lists of a few hundred met here that is several times faster than a
    sort, which on CPU compares one pair at a time. Of float64 the upper 32 bits nearly always single out the value.
    """
    word, size = (jnp.uint64, 64) if values.dtype == jnp.float64 else (jnp.uint32, 32)
    bits = jax.lax.bitcast_convert_type(jnp.where(values == 0, 0, values), word)  # one zero
    top = jnp.ones((), word) << (size - 1)
    bits = jnp.where(jnp.isnan(values), ~jnp.zeros((), word), jnp.where(bits >= top, ~bits, bits | top))
    rank = jnp.asarray((count + 1) // 2, jnp.int32)
    if size == 32:
        found = _of_rank(bits, rank, jnp.zeros((), jnp.uint32), 32)
    else:
        upper, lower = (bits >> 32).astype(jnp.uint32), bits.astype(jnp.uint32)
        found_upper = _of_rank(upper, rank, jnp.zeros((), jnp.uint32), 32)
        alike = upper == found_upper
        least = jnp.min(jnp.where(alike, lower, ~jnp.zeros((), jnp.uint32)))
        settled = least == jnp.max(jnp.where(alike, lower, 0))
        found_lower = _of_rank(
            jnp.where(alike, lower, ~jnp.zeros((), jnp.uint32)),
            rank - jnp.sum((upper < found_upper).astype(jnp.int32)),
            jnp.where(settled, least, 0),
            jnp.where(settled, 0, 32),
        )
        found = (found_upper.astype(word) << 32) | found_lower.astype(word)
    low = jax.lax.bitcast_convert_type(jnp.where(found >= top, found ^ top, ~found), values.dtype)
    if count % 2 == 1:
        return low, low
    larger = (bits > found) & ~jnp.isnan(values)
    above = jnp.where(jnp.any(larger), jnp.min(jnp.where(larger, values, jnp.inf)), jnp.nan)
    return low, jnp.where(jnp.sum((bits <= found).astype(jnp.int32)) > rank, low, above)


def _of_rank(words: jax.Array, rank: jax.Array, begun: jax.Array, passes: Any) -> jax.Array:
    """The ``rank``-th smallest, counted from 1, of words [n] uint32, by ``passes`` bits from the top on."""

    def settle(i: jax.Array, found: jax.Array) -> jax.Array:
        trial = found | (jnp.asarray(2**31, jnp.uint32) >> jnp.asarray(i, jnp.uint32))
        return jnp.where(jnp.sum((words < trial).astype(jnp.int32)) < rank, trial, found)

    return jax.lax.fori_loop(np.int32(0), jnp.asarray(passes, jnp.int32), settle, begun)


def _less_margin(squared_norms: jax.Array, dim: int) -> jax.Array:
    """Squared norms [k] of points in float32 less what rounding can add to a squared distance."""
    return squared_norms * (1 - 2 * (dim + 8) * float(np.finfo(np.float32).eps))


def _near_at_once(points: list[jax.Array], cut: float) -> jax.Array:
    """How many others are surely or possibly within squared distance ``cut`` of each: d rows [k] of float32 -> [k].

    The products are written out: their sum over d, the test and the count are one kernel on a GPU, and the k x k
    matrix never reaches its memory.
    """
    if len(points) > UNROLLED:
        whole = jnp.stack(points)
        halves = 0.5 * _less_margin(jnp.sum(whole * whole, axis=0), len(points))
        half_squared = halves[:, None] + halves[None, :] - dot(whole.T, whole)
    else:
        halves = 0.5 * _less_margin(functools.reduce(jnp.add, [row * row for row in points]), len(points))
        half_squared = halves[:, None] + halves[None, :]
        for row in points:
            half_squared = half_squared - row[:, None] * row[None, :]
    return jnp.sum(~(half_squared > 0.5 * cut), axis=1, dtype=jnp.int32) - 1


def _near_by_rows(points: jax.Array, cut: float) -> jax.Array:
    """The same a few rows at a time, without a k x k matrix in memory."""
    dim, num = points.shape
    if dim > UNROLLED:
        return _near_at_once(list(points), cut)
    norms = _less_margin(jnp.sum(points * points, axis=0), dim)
    spare = -num % _ROWS
    columns = jnp.pad(points.T, ((0, spare), (0, 0)))
    offsets = jnp.pad(norms, (0, spare), constant_values=jnp.inf)  # rows that do not exist are near nothing

    coordinates = list(points)

    def count(block: jax.Array, near: jax.Array) -> jax.Array:
        here = 2 * jax.lax.dynamic_slice_in_dim(columns, block * _ROWS, _ROWS)
        offset = jax.lax.dynamic_slice_in_dim(offsets, block * _ROWS, _ROWS)
        for row in range(_ROWS):
            squared = offset[row] + norms
            for coordinate, of_row in zip(coordinates, here[row], strict=True):
                squared = squared - of_row * coordinate
            near = near + (~(squared > cut)).astype(jnp.int32)
        return near

    return jax.lax.fori_loop(0, (num + spare) // _ROWS, count, jnp.full(num, -1, jnp.int32))
