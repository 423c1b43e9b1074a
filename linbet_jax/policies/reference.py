"""Reference lines: uniform play and greedy ridge regression."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from linbet_jax.kernels.balls import Ball
from linbet_jax.policies._checks import check_params
from linbet_jax.policies.designs import Design
from linbet_jax.policies.policy import About, Policy
from linbet_jax.policies.registry import Cost, Setup, register
from linbet_jax.policies.ridge import ridge_policy


class UniformParams(NamedTuple):
    """Hyperparameters of uniform play; :mod:`linbet_jax.policies.policy` says what its fields are."""

    horizon: Any


@functools.lru_cache(maxsize=1)
def uniform() -> Policy:
    """Every arm with probability 1/K at every pull, independently; parameters: :class:`UniformParams`.

    On a ball an arm of its surface in a uniform direction.
    """

    def select(key: jax.Array, state: jax.Array, arms: jax.Array, params: UniformParams) -> jax.Array:
        if isinstance(arms, Ball):
            return arms.drawn(key)
        return jax.random.randint(key, (), 0, arms.shape[0], dtype=jnp.int32)

    return Policy(
        name="uniform",
        init=lambda arms, params: jnp.zeros((), jnp.int32),
        select=select,
        update=lambda state, arms, index, payoffs, params: state + 1,
        finite=lambda state: jnp.ones((), bool),
        about=About(check=check_params),
    )


class GreedyParams(NamedTuple):
    """Hyperparameters of greedy play; :mod:`linbet_jax.policies.policy` says what its fields are."""

    ridge: Any
    horizon: Any


@functools.lru_cache(maxsize=128)
def greedy(design: Design) -> Policy:
    """The best arm of the current ridge estimate, never exploring; parameters: :class:`GreedyParams`."""
    return ridge_policy("greedy", design, radius=None)


@register(
    "greedy",
    color="#56B4E9",
    cost=Cost(0.2, 2e-4, 2e-4),
    source="a reference line",
    assumption="none",
    time="K d + d²",
    memory="d² + K",
)
def make_greedy(setup: Setup) -> tuple[Policy, GreedyParams]:
    """Greedy play."""
    return greedy(setup.design), setup.params(GreedyParams)


@register(
    "uniform",
    color="#7F7F7F",
    cost=Cost(0.4, 0.0, 0.0),
    source="a reference line",
    assumption="none",
    time="1",
    memory="1",
    needs_mean=False,
)
def make_uniform(setup: Setup) -> tuple[Policy, UniformParams]:
    """Uniform play."""
    return uniform(), setup.params(UniformParams)
