"""What the stages of sup_btc and sup_bmm know of every arm, and the two ways they estimate: truncation and medians.

A stage's rows are a fixed design given its payoffs' past (see :mod:`linbet_jax.policies.sup`), so the estimates and
widths of :mod:`linbet_jax.kernels.fixed_design` hold for it as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from linbet_jax import theory
from linbet_jax.kernels.fixed_design import bmm_width, btc_level, btc_width
from linbet_jax.kernels.gram import compensated, dot
from linbet_jax.kernels.medians import median_of_means

_CHUNK = 64  # rows of a stage that are truncated at a time
_LARGE = 8  # payoffs of an arm in a stage that are truncated one by one
_MOST = {"float32": 1e15, "float64": 1e100}  # a payoff beyond it counts as this: no sum of medians becomes NaN


class Stages(NamedTuple):
    """What every stage knows of every arm; S stages."""

    counts: jax.Array  # [S, K] int32, rows of each stage by their arms
    values: jax.Array  # [S, K], estimates r of <x, theta*>
    # [S, K], their widths' part from noise, or its part that does not change with the number of the pull
    noise: jax.Array
    leverages: jax.Array  # [S, K], ||x|| in the norm of the stage's A^-1


class Row(NamedTuple):
    """A stage after its new row."""

    stage: jax.Array  # [] int32
    num_rows: jax.Array  # [] int32; 0 where nothing is recorded
    counts: jax.Array  # [K] int32
    inverse: jax.Array  # [d, d], A^-1
    weights: jax.Array  # [K, K], U[a, x] = a^T A^-1 x
    powers: jax.Array  # [K], sum_x n_x |U[a, x]|^p


class Estimator(NamedTuple):
    """Truncation or medians."""

    begin: Callable[[jax.Array], Any]  # (arms) -> payoffs, empty
    # (payoffs, index, observed [k], row, arms, params) -> (payoffs, values [K], noise [K])
    add: Callable[..., tuple[Any, jax.Array, jax.Array]]
    # (number of arms, params) -> [], of t^a ||x||: the noise's part of a width that grows with t
    factor: Callable[[int, Any], Any]
    literal: bool  # whether widths are the paper's

    def widths(self, stages: Stages, number: jax.Array, params: Any, *, staged: bool) -> jax.Array:
        """[S, K], literal, before update number [] of policies with stages or with one that takes every pull."""
        noise = stages.noise
        if self.literal or not staged:
            factor = self.factor(stages.counts.shape[1], params)
            pulls = number if self.literal else jnp.maximum(number - 1, 1)
            grown = factor * pulls.astype(params.ridge.dtype) ** theory.growth_exponent(params.epsilon)
            if self.literal:
                return (grown + 1) * stages.leverages
            noise = grown * stages.leverages
        return noise + theory.initial_radius(ridge=params.ridge, theta_norm=params.theta_norm) * stages.leverages


class Truncated(NamedTuple):
    """What truncation keeps; T' is T, rounded up."""

    arms: jax.Array  # [S T'] int32, those of the stages' rows in their order
    payoffs: jax.Array  # [S T'], theirs
    large: jax.Array  # [S, K, 8], the largest payoffs of every arm in a stage
    rest: jax.Array  # [S, K], the sums of all other payoffs
    lost: jax.Array  # [S, K], what rounding has kept out of these so far


def truncation(num_stages: int, history: int, literal: bool) -> Estimator:
    """Truncated ridge estimates: the weights of a stage's rows change with it, so its payoffs are judged anew.

    Where the level spares all but an arm's largest payoffs, their sum is enough; else the stage's rows are read.
    """
    length = _CHUNK * math.ceil(history / _CHUNK)

    def log_term(num_arms: int, params: Any) -> Any:
        return theory.sup_log(params.horizon, num_arms=num_arms, num_stages=num_stages, delta=params.delta)

    def begin(arms: jax.Array) -> Truncated:
        zeros = jnp.zeros((num_stages, arms.shape[0]), arms.dtype)
        large = jnp.zeros((*zeros.shape, _LARGE), arms.dtype)
        rows = num_stages * length
        return Truncated(jnp.zeros(rows, jnp.int32), jnp.zeros(rows, arms.dtype), large, zeros, zeros)

    def remember(payoffs: Truncated, index: jax.Array, observed: jax.Array, row: Row) -> Truncated:
        recorded = row.num_rows > 0
        place = jnp.where(recorded, row.stage * length + row.num_rows - 1, num_stages * length)  # beyond: dropped
        large = payoffs.large[row.stage, index]
        least = jnp.argmin(jnp.abs(large))
        enters = jnp.abs(observed) > jnp.abs(large[least])
        entered = recorded & enters
        here = (jnp.arange(num_stages) == row.stage)[:, None] & (jnp.arange(payoffs.rest.shape[1]) == index)
        term = jnp.where(recorded & here, jnp.where(enters, large[least], observed), 0)
        rest, lost = compensated(payoffs.rest, payoffs.lost, term)
        return Truncated(
            payoffs.arms.at[place].set(index.astype(jnp.int32), mode="drop"),
            payoffs.payoffs.at[place].set(observed, mode="drop"),
            payoffs.large.at[row.stage, index, least].set(jnp.where(entered, observed, large[least])),
            rest,
            lost,
        )

    def add(
        payoffs: Truncated, index: jax.Array, observed: jax.Array, row: Row, arms: jax.Array, params: Any
    ) -> tuple[Truncated, jax.Array, jax.Array]:
        after = remember(payoffs, index, observed[0], row)
        spread = (params.raw_moment_bound * row.powers) ** (1 / (1 + params.epsilon))  # M
        log = log_term(arms.shape[0], params)
        levels = row.powers ** (1 / (1 + params.epsilon)) if literal else btc_level(spread, log, params.epsilon)

        # U is symmetric: arms x whose payoffs they are stand in its rows here, so that sums over them are fast.
        large = after.large[row.stage].T  # [8, K]
        spared = jnp.all(jnp.abs(row.weights) * jnp.min(jnp.abs(large), axis=0)[:, None] <= levels)

        def judge(j: jax.Array, total: jax.Array) -> jax.Array:
            products = row.weights * large[j][:, None]
            return total + jnp.sum(jnp.where(jnp.abs(products) <= levels, products, 0), axis=0)

        single = jnp.where(spared, _LARGE, 0)
        short = jax.lax.fori_loop(jnp.zeros_like(single), single, judge, dot(row.weights, after.rest[row.stage]))

        def some(part: jax.Array, total: jax.Array) -> jax.Array:
            start = row.stage * length + part * _CHUNK
            weights = row.weights[jax.lax.dynamic_slice_in_dim(after.arms, start, _CHUNK)]  # [rows, K]
            products = weights * jax.lax.dynamic_slice_in_dim(after.payoffs, start, _CHUNK)[:, None]
            fresh = jnp.arange(_CHUNK) < row.num_rows - part * _CHUNK
            kept = fresh[:, None] & (jnp.abs(products) <= levels)
            return total + jnp.sum(jnp.where(kept, products, 0), axis=0)

        parts = jnp.where(spared, 0, (row.num_rows + _CHUNK - 1) // _CHUNK)
        read = jax.lax.fori_loop(jnp.zeros_like(parts), parts, some, jnp.zeros_like(row.powers))
        return after, jnp.where(spared, short, read), btc_width(spread, log, params.epsilon)

    def factor(num_arms: int, params: Any) -> Any:
        if not literal:
            log = log_term(num_arms, params)
            return btc_width(params.raw_moment_bound ** (1 / (1 + params.epsilon)), log, params.epsilon)
        return theory.at(theory.sup_btc_factor, params, num_arms=num_arms)

    return Estimator(begin, add, factor, literal)


def medians(num_stages: int, copies: int, literal: bool) -> Estimator:
    """Medians of k ridge estimates, one of every copy."""

    def begin(arms: jax.Array) -> jax.Array:
        return jnp.zeros((num_stages, copies, arms.shape[1]), arms.dtype)

    def add(
        payoffs: jax.Array, index: jax.Array, observed: jax.Array, row: Row, arms: jax.Array, params: Any
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        most = _MOST[str(observed.dtype)]
        stage = jnp.minimum(row.stage, num_stages - 1)
        terms = jnp.where(row.num_rows > 0, jnp.clip(observed, -most, most), 0)[:, None] * arms[index]
        moments = jax.lax.dynamic_index_in_dim(payoffs, stage, keepdims=False) + terms
        predictions = dot(dot(moments, row.inverse), arms.T)  # [k, K]
        values = jax.vmap(lambda column: median_of_means(column, copies), in_axes=1)(predictions)
        spread = (params.central_moment_bound * row.powers) ** (1 / (1 + params.epsilon))
        after = jax.lax.dynamic_update_index_in_dim(payoffs, moments, stage, 0)
        return after, values, bmm_width(spread, params.epsilon)

    def factor(num_arms: int, params: Any) -> Any:
        if literal:
            return (12 * params.central_moment_bound) ** (1 / (1 + params.epsilon))
        return bmm_width(params.central_moment_bound ** (1 / (1 + params.epsilon)), params.epsilon)

    return Estimator(begin, add, factor, literal)
