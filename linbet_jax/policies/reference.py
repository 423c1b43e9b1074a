"""Reference lines: uniform play and greedy ridge regression."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from linbet_jax.policies._checks import check_params
from linbet_jax.policies._ridge import ridge_policy
from linbet_jax.policy import Policy


class UniformParams(NamedTuple):
    """Hyperparameters of uniform play.

    Attributes:
        horizon: T, the pulls the parameters were made for.
    """

    horizon: Any


@functools.lru_cache(maxsize=1)
def uniform() -> Policy:
    """Every arm with probability 1/K at every pull, independently; parameters: :class:`UniformParams`."""

    def select(key: jax.Array, state: jax.Array, arms: jax.Array, params: UniformParams) -> jax.Array:
        return jax.random.randint(key, (), 0, arms.shape[0], dtype=jnp.int32)

    return Policy(
        name="uniform",
        init=lambda params: jnp.zeros((), jnp.int32),
        select=select,
        update=lambda state, feature, payoffs, params: state + 1,
        finite=lambda state: jnp.ones((), bool),
        check=check_params,
    )


class GreedyParams(NamedTuple):
    """Hyperparameters of greedy ridge regression, all traced.

    Attributes:
        ridge: lambda > 0.
        horizon: T, the pulls the parameters were made for.
    """

    ridge: Any
    horizon: Any


@functools.lru_cache(maxsize=128)
def greedy(dim: int) -> Policy:
    """The best arm of the current ridge estimate, never exploring; parameters: :class:`GreedyParams`."""

    def radius(updates: jax.Array, log_det_ratio: jax.Array, params: GreedyParams) -> jax.Array:
        return jnp.zeros_like(params.ridge)

    def observe(payoffs: jax.Array, number: jax.Array, params: GreedyParams) -> jax.Array:
        return payoffs[0]

    policy = ridge_policy("greedy", dim, radius=radius, observe=observe)
    assert policy.fixed is not None
    return policy._replace(region=None, fixed=policy.fixed._replace(region=None))  # it claims nothing about theta*
